//! Parser of the text form of types, as a user of SQL would write them
//! (tables.md §2.1).

use std::str::FromStr;

use super::{DataType, RowField, TypeKind, check_field_names, check_nesting};
use crate::DescriptorError;

/// `VARBINARY` of this length, the largest, is another name of `BYTES`.
const UNBOUNDED_LENGTH: u32 = i32::MAX as u32;

impl FromStr for DataType {
    type Err = DescriptorError;

    /// Reads the text form, such as `BIGINT NOT NULL` or
    /// ``ROW<`f` INT 'comment', g ARRAY<STRING>>``. Keywords are case-insensitive.
    fn from_str(text: &str) -> Result<Self, DescriptorError> {
        let mut parser = Parser { text, position: 0 };
        let (data_type, _) = parser.data_type(0)?;
        parser.skip_blanks();
        if parser.position < text.len() {
            return Err(parser.expected("the end of the type"));
        }
        Ok(data_type)
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Byte position of the next character, always at a character boundary.
    position: usize,
}

impl<'a> Parser<'a> {
    /// A type below `containers` containers, and how many containers are inside
    /// one another in it.
    fn data_type(&mut self, containers: usize) -> Result<(DataType, usize), DescriptorError> {
        check_nesting(containers)?;
        let (kind, mut height) = self.kind(containers)?;
        kind.check_parameters()?;
        let mut data_type = DataType {
            kind,
            nullable: self.nullability()?,
        };
        while self.keyword("ARRAY") {
            height += 1;
            check_nesting(containers + height)?;
            let nullable = self.nullability()?;
            data_type = DataType {
                kind: TypeKind::Array(Box::new(data_type)),
                nullable,
            };
        }
        Ok((data_type, height))
    }

    fn kind(&mut self, containers: usize) -> Result<(TypeKind, usize), DescriptorError> {
        let start = self.position;
        let Some(word) = self.word() else {
            return Err(self.expected("a type"));
        };
        let kind = match word.to_ascii_uppercase().as_str() {
            "BOOLEAN" => TypeKind::Boolean,
            "TINYINT" => TypeKind::TinyInt,
            "SMALLINT" => TypeKind::SmallInt,
            "INT" | "INTEGER" => TypeKind::Int,
            "BIGINT" => TypeKind::BigInt,
            "FLOAT" => TypeKind::Float,
            "DOUBLE" => {
                self.keyword("PRECISION");
                TypeKind::Double
            }
            "CHAR" => TypeKind::Char {
                length: self.parameter()?.unwrap_or(1),
            },
            "STRING" => TypeKind::String,
            "BINARY" => TypeKind::Binary {
                length: self.parameter()?.unwrap_or(1),
            },
            "BYTES" => TypeKind::Bytes,
            "VARBINARY" => match self.parameter()? {
                Some(UNBOUNDED_LENGTH) => TypeKind::Bytes,
                _ => return Err(self.error(start, "VARBINARY(n) is not supported, use BYTES")),
            },
            "VARCHAR" => {
                return Err(self.error(start, "VARCHAR is not supported, use STRING"));
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal()?,
            "DATE" => TypeKind::Date,
            "TIME" => {
                let precision = self.precision(0)?;
                if self.keyword("WITHOUT") {
                    self.time_zone()?;
                }
                TypeKind::Time { precision }
            }
            "TIMESTAMP" => self.timestamp()?,
            "TIMESTAMP_LTZ" => TypeKind::TimestampLtz {
                precision: self.precision(6)?,
            },
            "ARRAY" => {
                self.symbol('<')?;
                let (element, height) = self.data_type(containers + 1)?;
                self.symbol('>')?;
                return Ok((TypeKind::Array(Box::new(element)), height + 1));
            }
            "MAP" => {
                self.symbol('<')?;
                let (mut key, key_height) = self.data_type(containers + 1)?;
                key.nullable = false;
                self.symbol(',')?;
                let (value, value_height) = self.data_type(containers + 1)?;
                self.symbol('>')?;
                let kind = TypeKind::Map {
                    key: Box::new(key),
                    value: Box::new(value),
                };
                return Ok((kind, key_height.max(value_height) + 1));
            }
            "ROW" => return self.row(containers),
            _ => return Err(self.error(start, "unknown type")),
        };
        Ok((kind, 0))
    }

    fn decimal(&mut self) -> Result<TypeKind, DescriptorError> {
        if !self.next_is('(') {
            return Ok(TypeKind::Decimal {
                precision: 10,
                scale: 0,
            });
        }
        let precision = self.small_number()?;
        let scale = if self.next_is(',') {
            self.small_number()?
        } else {
            0
        };
        self.symbol(')')?;
        Ok(TypeKind::Decimal { precision, scale })
    }

    fn timestamp(&mut self) -> Result<TypeKind, DescriptorError> {
        let precision = self.precision(6)?;
        if self.keyword("WITHOUT") {
            self.time_zone()?;
        } else if self.keyword("WITH") {
            if !self.keyword("LOCAL") {
                return Err(self.expected("LOCAL (only local time zones are supported)"));
            }
            self.time_zone()?;
            return Ok(TypeKind::TimestampLtz { precision });
        }
        Ok(TypeKind::Timestamp { precision })
    }

    fn row(&mut self, containers: usize) -> Result<(TypeKind, usize), DescriptorError> {
        check_nesting(containers + 1)?;
        let close = if self.next_is('(') {
            ')'
        } else {
            self.symbol('<')?;
            '>'
        };
        let mut fields = Vec::new();
        let mut inner_height = 0;
        while !self.next_is(close) {
            if !fields.is_empty() {
                self.symbol(',')?;
            }
            let name = match self.quoted('`')? {
                Some(name) => name,
                None => self
                    .word()
                    .ok_or_else(|| self.expected("a field name"))?
                    .to_owned(),
            };
            let (data_type, height) = self.data_type(containers + 1)?;
            inner_height = inner_height.max(height);
            let description = self.quoted('\'')?;
            fields.push(RowField {
                description,
                ..RowField::new(name, data_type)
            });
        }
        check_field_names(&fields)?;
        Ok((TypeKind::Row(fields), inner_height + 1))
    }

    /// `NOT NULL`, `NULL` or nothing.
    fn nullability(&mut self) -> Result<bool, DescriptorError> {
        if self.keyword("NOT") {
            if !self.keyword("NULL") {
                return Err(self.expected("NULL"));
            }
            return Ok(false);
        }
        self.keyword("NULL");
        Ok(true)
    }

    fn time_zone(&mut self) -> Result<(), DescriptorError> {
        if self.keyword("TIME") && self.keyword("ZONE") {
            return Ok(());
        }
        Err(self.expected("TIME ZONE"))
    }

    fn precision(&mut self, default: u8) -> Result<u8, DescriptorError> {
        let precision = self.parameter()?;
        Ok(precision.map_or(default, |value| u8::try_from(value).unwrap_or(u8::MAX)))
    }

    /// A number in parentheses, if there is one.
    fn parameter(&mut self) -> Result<Option<u32>, DescriptorError> {
        if !self.next_is('(') {
            return Ok(None);
        }
        let number = self.number()?;
        self.symbol(')')?;
        Ok(Some(number))
    }

    /// Out of range reads as 255, which no type allows.
    fn small_number(&mut self) -> Result<u8, DescriptorError> {
        Ok(u8::try_from(self.number()?).unwrap_or(u8::MAX))
    }

    fn number(&mut self) -> Result<u32, DescriptorError> {
        let rest = self.skip_blanks();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits]
            .parse()
            .map_err(|_| self.expected("a number"))?;
        self.position += digits;
        Ok(number)
    }

    /// A word of ASCII letters, digits and underscores.
    fn word(&mut self) -> Option<&'a str> {
        let rest = self.skip_blanks();
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            .count();
        let word = &rest[..length];
        if !word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            return None;
        }
        self.position += length;
        Some(word)
    }

    /// Takes the keyword if it is next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let start = self.position;
        if self
            .word()
            .is_some_and(|word| word.eq_ignore_ascii_case(keyword))
        {
            return true;
        }
        self.position = start;
        false
    }

    /// Text in quotes, if it is next; a doubled quote stands for one.
    fn quoted(&mut self, quote: char) -> Result<Option<String>, DescriptorError> {
        let start = self.position;
        if !self.next_is(quote) {
            return Ok(None);
        }
        let mut text = String::new();
        let mut characters = self.text[self.position..].char_indices().peekable();
        while let Some((index, character)) = characters.next() {
            if character != quote {
                text.push(character);
            } else if characters.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                self.position += index + quote.len_utf8();
                return Ok(Some(text));
            }
        }
        Err(self.error(start, "unbalanced quote"))
    }

    /// Takes the symbol if it is next.
    fn next_is(&mut self, symbol: char) -> bool {
        let found = self.skip_blanks().starts_with(symbol);
        if found {
            self.position += symbol.len_utf8();
        }
        found
    }

    fn symbol(&mut self, symbol: char) -> Result<(), DescriptorError> {
        if self.next_is(symbol) {
            return Ok(());
        }
        Err(self.expected(&format!("'{symbol}'")))
    }

    /// The rest of the text, from the next character that is not blank.
    fn skip_blanks(&mut self) -> &'a str {
        let rest = self.text[self.position..].trim_start();
        self.position = self.text.len() - rest.len();
        rest
    }

    fn expected(&self, what: &str) -> DescriptorError {
        self.error(self.position, &format!("expected {what}"))
    }

    fn error(&self, position: usize, problem: &str) -> DescriptorError {
        let near: String = self.text[position..]
            .trim_start()
            .chars()
            .take(24)
            .collect();
        DescriptorError::new(format!(
            "Invalid data type: {problem} at position {position}, near '{near}'."
        ))
    }
}
