//! What a record of a changelog says about its row.

use std::fmt;

use arrow_array::{Array, BooleanArray, UInt8Array};
use bytes::Bytes;

use crate::error::{ClientError, Result};

/// The change that a record stands for (formats.md §1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeType {
    /// `+A`: a row of a log table.
    Append,
    /// `+I`: the first row of a key.
    Insert,
    /// `-U`: the row before an update; its `+U` follows directly.
    UpdateBefore,
    /// `+U`: the row after an update.
    UpdateAfter,
    /// `-D`: the row that was deleted.
    Delete,
}

impl ChangeType {
    /// The type with a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Append,
            1 => Self::Insert,
            2 => Self::UpdateBefore,
            3 => Self::UpdateAfter,
            4 => Self::Delete,
            _ => return None,
        })
    }

    /// The short form: `+A`, `+I`, `-U`, `+U`, `-D`.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Append => "+A",
            Self::Insert => "+I",
            Self::UpdateBefore => "-U",
            Self::UpdateAfter => "+U",
            Self::Delete => "-D",
        }
    }
}

impl fmt::Display for ChangeType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.symbol())
    }
}

/// The change type of each row of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeTypes {
    /// Codes, checked; `None` = all are appends.
    codes: Option<UInt8Array>,
}

impl ChangeTypes {
    /// All rows are appends.
    pub const APPENDS: Self = Self { codes: None };

    /// From the codes of a batch; `None` = all are appends.
    ///
    /// # Errors
    /// A code that there is not.
    pub fn from_codes(codes: Option<Bytes>) -> Result<Self> {
        let Some(codes) = codes else {
            return Ok(Self::APPENDS);
        };
        match codes
            .iter()
            .find(|code| ChangeType::from_code(**code).is_none())
        {
            Some(code) => Err(ClientError::Malformed(format!("change type {code}"))),
            None => Ok(Self {
                codes: Some(UInt8Array::from_iter_values(codes)),
            }),
        }
    }

    /// The change type of a row of the batch.
    pub fn get(&self, row: usize) -> ChangeType {
        let code = self.codes.as_ref().map_or(0, |codes| codes.value(row));
        // The codes were checked.
        ChangeType::from_code(code).unwrap_or(ChangeType::Append)
    }

    pub(crate) fn slice(&self, offset: usize, length: usize) -> Self {
        let codes = self.codes.as_ref();
        Self {
            codes: codes.map(|codes| codes.slice(offset, length)),
        }
    }

    pub(crate) fn filter(&self, kept: &BooleanArray) -> Result<Self> {
        let Some(codes) = &self.codes else {
            return Ok(Self::APPENDS);
        };
        let codes = arrow_select::filter::filter(codes, kept)
            .map_err(|error| ClientError::Usage(error.to_string()))?;
        Ok(Self {
            codes: Some(UInt8Array::from(codes.to_data())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_types_stay_with_their_rows() {
        let types =
            ChangeTypes::from_codes(Some(Bytes::from_static(&[1, 2, 3, 4]))).expect("codes");
        let symbols = |types: &ChangeTypes, rows: usize| -> Vec<&str> {
            (0..rows).map(|row| types.get(row).symbol()).collect()
        };
        assert_eq!(symbols(&types, 4), ["+I", "-U", "+U", "-D"]);
        assert_eq!(symbols(&types.slice(1, 2), 2), ["-U", "+U"]);
        let kept = BooleanArray::from(vec![true, false, false, true]);
        let kept = types.filter(&kept).expect("filters");
        assert_eq!(symbols(&kept, 2), ["+I", "-D"]);
        assert_eq!(symbols(&ChangeTypes::APPENDS, 2), ["+A", "+A"]);
        assert!(ChangeTypes::from_codes(Some(Bytes::from_static(&[1, 5]))).is_err());
    }
}
