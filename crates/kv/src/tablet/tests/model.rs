//! What puts do, written from tables.md §4 alone: rows are lists of texts, tables
//! are sorted maps. Shares nothing with the code that it checks.

use std::collections::BTreeMap;

/// `None` = null.
pub(super) type Row = Vec<Option<String>>;
/// Rows by their key, which is the first column.
pub(super) type Rows = BTreeMap<String, Row>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    None,
    FirstRow,
    /// By the second column.
    Versioned,
    Aggregation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletes {
    Allow,
    Ignore,
    Disable,
}

/// How the aggregation engine merges a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Sum,
    Max,
    Min,
    Last,
    LastNotNull,
    First,
    List,
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    pub engine: Engine,
    pub wal: bool,
    pub deletes: Deletes,
    /// Position of the auto-increment column.
    pub numbered: Option<usize>,
    /// One for each column of the latest schema.
    pub functions: Vec<Function>,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Positions; empty = all.
    pub target: Vec<usize>,
    pub overwrite: bool,
    /// Keys with the rows that are sent, as wide as the writer's schema; no row is a
    /// delete.
    pub records: Vec<(String, Option<Row>)>,
}

/// `+I`, `-U`, `+U` or `-D`, and the row.
pub(super) type Change = (&'static str, Row);

/// The request is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

impl Table {
    fn width(&self) -> usize {
        self.functions.len()
    }

    /// Does a request. `number` gives the number of the n-th change, an insert.
    pub fn put(
        &self,
        rows: &mut Rows,
        request: &Request,
        number: &dyn Fn(usize) -> String,
    ) -> Result<Vec<Change>, Refused> {
        let engine = match request.overwrite {
            true => Engine::None,
            false => self.engine,
        };
        let is_target = |column: usize| request.target.contains(&column);
        let has_target = !request.target.is_empty();
        let is_complete = !has_target || (0..self.width()).all(is_target);
        let is_partial = match engine {
            Engine::None => !is_complete,
            Engine::Aggregation => has_target,
            Engine::FirstRow | Engine::Versioned if has_target => return Err(Refused),
            Engine::FirstRow | Engine::Versioned => false,
        };
        if is_partial && !is_target(0) {
            return Err(Refused);
        }
        if let Some(column) = self.numbered
            && (!has_target || is_target(column))
        {
            return Err(Refused);
        }
        let deletes = match request.overwrite {
            true => Deletes::Allow,
            false => self.deletes,
        };
        let has_deletes = request.records.iter().any(|(_, row)| row.is_none());
        if has_deletes && deletes == Deletes::Disable {
            return Err(Refused);
        }
        let is_blind = self.wal && engine == Engine::None && !is_partial && self.numbered.is_none();
        let mut changes = Vec::new();
        for (key, sent) in &request.records {
            let old = rows.get(key).cloned();
            let Some(sent) = sent else {
                if deletes == Deletes::Allow
                    && let Some(old) = old
                {
                    self.delete(
                        rows,
                        key,
                        old,
                        is_partial.then_some(&is_target),
                        &mut changes,
                    );
                }
                continue;
            };
            let mut sent = sent.clone();
            sent.resize(self.width(), None);
            let Some(old) = old else {
                let mut new = sent;
                if engine == Engine::None && is_partial {
                    for column in (0..self.width()).filter(|column| !is_target(*column)) {
                        new[column] = None;
                    }
                }
                if let Some(column) = self.numbered {
                    new[column] = Some(number(changes.len()));
                }
                let sign = if is_blind { "+U" } else { "+I" };
                changes.push((sign, new.clone()));
                rows.insert(key.clone(), new);
                continue;
            };
            let new = match engine {
                Engine::FirstRow => continue,
                Engine::Versioned if version(&old) > version(&sent) => continue,
                Engine::Versioned => sent,
                Engine::None if is_partial && request.target.iter().all(|column| *column == 0) => {
                    continue;
                }
                Engine::None if !is_partial => sent,
                Engine::None => (0..self.width())
                    .map(|column| if is_target(column) { &sent } else { &old }[column].clone())
                    .collect(),
                Engine::Aggregation => (0..self.width())
                    .map(|column| match has_target && !is_target(column) {
                        true => old[column].clone(),
                        false => merge(self.functions[column], &old[column], &sent[column]),
                    })
                    .collect(),
            };
            self.replace(rows, key, old, new, &mut changes);
        }
        Ok(changes)
    }

    fn replace(&self, rows: &mut Rows, key: &str, old: Row, new: Row, changes: &mut Vec<Change>) {
        if !self.wal {
            changes.push(("-U", old));
        }
        changes.push(("+U", new.clone()));
        rows.insert(key.to_owned(), new);
    }

    fn delete(
        &self,
        rows: &mut Rows,
        key: &str,
        old: Row,
        partial: Option<&dyn Fn(usize) -> bool>,
        changes: &mut Vec<Change>,
    ) {
        if let Some(is_target) = partial {
            let others = (0..self.width()).filter(|column| !is_target(*column));
            if others.clone().any(|column| old[column].is_some()) {
                let mut new: Row = vec![None; self.width()];
                new[0] = old[0].clone();
                for column in others {
                    new[column] = old[column].clone();
                }
                return self.replace(rows, key, old, new, changes);
            }
        }
        rows.remove(key);
        changes.push(("-D", old));
    }
}

fn version(row: &Row) -> i64 {
    row[1]
        .as_ref()
        .map_or(i64::MIN, |text| text.parse().unwrap())
}

fn merge(function: Function, old: &Option<String>, new: &Option<String>) -> Option<String> {
    if function == Function::Last {
        return new.clone();
    }
    let (Some(accumulator), Some(input)) = (old, new) else {
        return old.clone().or_else(|| new.clone());
    };
    let number = |text: &String| text.parse::<i64>().unwrap();
    Some(match function {
        Function::Sum => number(accumulator).wrapping_add(number(input)).to_string(),
        Function::Max => number(accumulator).max(number(input)).to_string(),
        Function::Min => number(accumulator).min(number(input)).to_string(),
        Function::Last | Function::LastNotNull => input.clone(),
        Function::First => accumulator.clone(),
        // A row is one text, whose commas are between columns.
        Function::List => format!("{accumulator}|{input}"),
    })
}
