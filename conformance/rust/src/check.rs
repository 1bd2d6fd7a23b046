//! Comparisons that end the program at the first wrong value and say which.

use std::fmt::Debug;

use anyhow::{Result, bail};

/// `actual` must equal `expected`; `what` names the value in the message.
pub fn equal<T: PartialEq + Debug + ?Sized>(what: &str, expected: &T, actual: &T) -> Result<()> {
    if expected != actual {
        bail!(
            "{what}\n  expected: {}\n  actual:   {}",
            short(expected),
            short(actual)
        );
    }
    Ok(())
}

/// `condition` must hold.
pub fn that(what: &str, condition: bool) -> Result<()> {
    if !condition {
        bail!("{what}");
    }
    Ok(())
}

/// The call must fail with this Fluss error code.
pub fn fails_with<T>(what: &str, code: i32, result: fluss::error::Result<T>) -> Result<()> {
    use fluss::error::Error;
    match result {
        Ok(_) => bail!("{what}: succeeded, expected error {code}"),
        Err(Error::FlussAPIError { api_error }) if api_error.code == code => Ok(()),
        // list_offsets wraps what the server said.
        Err(other) if other.to_string().contains(&format!("code: {code},")) => Ok(()),
        Err(other) => bail!("{what}: expected error {code}, got {other:?}"),
    }
}

/// A step that passed.
pub fn passed(what: &str) {
    println!("  ok    {what}");
}

/// A step that this client cannot do.
pub fn cannot(what: &str) {
    println!("  cannot {what}");
}

fn short<T: Debug + ?Sized>(value: &T) -> String {
    let text = format!("{value:?}");
    if text.chars().count() <= 600 {
        return text;
    }
    let head: String = text.chars().take(600).collect();
    format!("{head}… ({} characters)", text.len())
}
