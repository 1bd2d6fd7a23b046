//! Keys as one types them.

use anyhow::{Context, Result, bail};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_cast::{CastOptions, cast_with_options};
use mainstem_format::arrow_type::arrow_type;
use mainstem_types::{Column, Schema};

/// Reads keys of some columns from arguments.
pub struct KeyParser {
    columns: Vec<Column>,
}

/// The texts of one key, in the order of the columns.
pub type Key = Vec<String>;

impl KeyParser {
    /// A parser of keys of the named columns.
    pub fn new(schema: &Schema, names: &[String]) -> Self {
        let columns = names.iter().filter_map(|name| schema.column(name));
        Self {
            columns: columns.map(|(_, column)| column.clone()).collect(),
        }
    }

    /// Keys from arguments: values in the order of the columns, or
    /// COLUMN=VALUE. A value of a key of several columns ends at a comma, unless
    /// it stands in double quotes.
    ///
    /// # Errors
    /// A key that is not whole, or has a column twice.
    pub fn parse(&self, arguments: &[String]) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        let mut open: Vec<Option<String>> = vec![None; self.columns.len()];
        for argument in arguments {
            for part in self.parts(argument)? {
                let (position, value) = match self.named(&part) {
                    Some((position, value)) => (position, value.to_owned()),
                    None => {
                        let free = open.iter().position(Option::is_none);
                        (free.unwrap_or_default(), part)
                    }
                };
                if open[position].is_some() {
                    let name = &self.columns[position].name;
                    bail!("the key at '{argument}' has column '{name}' twice");
                }
                open[position] = Some(value);
                if open.iter().all(Option::is_some) {
                    keys.push(open.iter_mut().filter_map(Option::take).collect());
                }
            }
        }
        if let Some(position) = open.iter().position(Option::is_none)
            && open.iter().any(Option::is_some)
        {
            bail!(
                "a key is not whole: there is no value for '{}'; a key has {}",
                self.columns[position].name,
                self.names()
            );
        }
        Ok(keys)
    }

    /// The keys as a batch with the types of the columns.
    ///
    /// # Errors
    /// A text that is no value of its column.
    pub fn batch(&self, keys: &[Key]) -> Result<RecordBatch> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let columns = self.columns.iter().enumerate().map(|(position, column)| {
            let texts = keys.iter().map(|key| key[position].as_str());
            let texts = StringArray::from_iter_values(texts);
            let values = cast_with_options(&texts, &arrow_type(&column.data_type), &options)
                .with_context(|| {
                    format!("the key's column '{}' is {}", column.name, column.data_type)
                })?;
            Ok((column.name.clone(), values))
        });
        let columns: Vec<(String, ArrayRef)> = columns.collect::<Result<_>>()?;
        Ok(RecordBatch::try_from_iter(columns)?)
    }

    /// The key as COLUMN=VALUE.
    pub fn describe(&self, key: &Key) -> String {
        let pairs = self.columns.iter().zip(key);
        let pairs = pairs.map(|(column, value)| format!("{}={value}", column.name));
        pairs.collect::<Vec<_>>().join(" ")
    }

    fn names(&self) -> String {
        let names = self.columns.iter().map(|column| column.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    fn named<'t>(&self, part: &'t str) -> Option<(usize, &'t str)> {
        let (name, value) = part.split_once('=')?;
        let position = self.columns.iter().position(|c| c.name == name.trim())?;
        Some((position, value))
    }

    fn parts(&self, argument: &str) -> Result<Vec<String>> {
        if self.columns.len() == 1 {
            return Ok(vec![argument.to_owned()]);
        }
        let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
        let mut letters = argument.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    part.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => parts.push(std::mem::take(&mut part)),
                other => part.push(other),
            }
        }
        if quoted {
            bail!("the quotes in '{argument}' are not closed");
        }
        parts.push(part);
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use arrow_cast::display::{ArrayFormatter, FormatOptions};
    use mainstem_types::{DataType, TypeKind};

    use super::*;

    fn schema() -> Schema {
        Schema::builder()
            .column("carrier", DataType::nullable(TypeKind::String))
            .column("flight", DataType::nullable(TypeKind::SmallInt))
            .column("day", DataType::nullable(TypeKind::Date))
            .primary_key(["carrier", "flight", "day"])
            .build()
            .expect("a schema")
    }

    fn texts(batch: &RecordBatch, column: usize) -> Vec<String> {
        let options = FormatOptions::default();
        let column = ArrayFormatter::try_new(batch.column(column), &options).expect("a column");
        (0..batch.num_rows())
            .map(|row| column.value(row).to_string())
            .collect()
    }

    fn parse(arguments: &[&str]) -> Result<RecordBatch> {
        let schema = schema();
        let parser = KeyParser::new(&schema, &schema.primary_key);
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        parser.batch(&parser.parse(&arguments)?)
    }

    #[test]
    fn a_key_is_given_in_order_by_commas_or_by_name() {
        for arguments in [
            &["UA", "15", "2013-01-01"][..],
            &["UA,15,2013-01-01"],
            &["flight=15", "UA", "day=2013-01-01"],
            &["day=2013-01-01,carrier=UA,flight=15"],
        ] {
            let batch = parse(arguments).expect("a key");
            let key: Vec<Vec<String>> = (0..3).map(|column| texts(&batch, column)).collect();
            assert_eq!(key, [["UA"], ["15"], ["2013-01-01"]], "{arguments:?}");
        }
    }

    #[test]
    fn more_values_are_more_keys() {
        let batch = parse(&["UA", "15", "2013-01-01", "\"A,\"\"B\",16,2013-01-02"]);
        let batch = batch.expect("keys");
        assert_eq!(texts(&batch, 0), ["UA", "A,\"B"]);
        assert_eq!(texts(&batch, 1), ["15", "16"]);
    }

    #[test]
    fn the_value_of_a_single_column_is_the_whole_argument() {
        let schema = Schema::builder()
            .column("url", DataType::nullable(TypeKind::String))
            .primary_key(["url"])
            .build()
            .expect("a schema");
        let parser = KeyParser::new(&schema, &schema.primary_key);
        let arguments = ["a,b?c=d".to_owned(), "url=x=y".to_owned()];
        let keys = parser.parse(&arguments).expect("keys");
        assert_eq!(keys, [["a,b?c=d"], ["x=y"]]);
        assert_eq!(parser.describe(&keys[1]), "url=x=y");
    }

    #[test]
    fn what_is_no_key_is_explained() {
        for (arguments, expected) in [
            (&["UA", "15"][..], "no value for 'day'"),
            (&["UA", "15", "carrier=B6", "2013-01-01"], "'carrier' twice"),
            (
                &["UA", "fifteen", "2013-01-01"],
                "column 'flight' is SMALLINT",
            ),
            (&["\"UA"], "not closed"),
        ] {
            let error = format!("{:#}", parse(arguments).expect_err("refused"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
