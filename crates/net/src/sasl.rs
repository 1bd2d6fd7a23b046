//! SASL/PLAIN (wire.md §3.3, RFC 4616).

use std::collections::HashMap;
use std::fmt;

use parking_lot::RwLock;

/// The only mechanism.
pub const PLAIN: &str = "PLAIN";

/// Knows users and their passwords.
pub trait Credentials: Send + Sync + 'static {
    /// Whether the password is that of the user of a listener. Takes the same
    /// time for every wrong password of a length, and for users that do not
    /// exist.
    fn verify(&self, listener: &str, user: &str, password: &[u8]) -> bool;
}

/// Users with passwords in memory, the same at every listener; can be replaced at run time
/// (`security.sasl.plain.credentials`).
#[derive(Default)]
pub struct PasswordMap {
    passwords: RwLock<HashMap<String, String>>,
}

impl PasswordMap {
    /// User → password.
    pub fn new(passwords: HashMap<String, String>) -> Self {
        PasswordMap {
            passwords: RwLock::new(passwords),
        }
    }

    /// Replaces all users. Connections that are authenticated stay so.
    pub fn replace(&self, passwords: HashMap<String, String>) {
        *self.passwords.write() = passwords;
    }
}

impl fmt::Debug for PasswordMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut users: Vec<String> = self.passwords.read().keys().cloned().collect();
        users.sort_unstable();
        formatter
            .debug_struct("PasswordMap")
            .field("users", &users)
            .finish_non_exhaustive()
    }
}

impl Credentials for PasswordMap {
    fn verify(&self, _listener: &str, user: &str, password: &[u8]) -> bool {
        let passwords = self.passwords.read();
        match passwords.get(user) {
            Some(expected) => equal_in_constant_time(expected.as_bytes(), password),
            None => {
                // The same work as for a user that exists.
                equal_in_constant_time(b"no such user", password);
                false
            }
        }
    }
}

/// Compares in a time that depends on the length of `given` only.
fn equal_in_constant_time(expected: &[u8], given: &[u8]) -> bool {
    let mut difference = u8::from(expected.len() != given.len());
    for (index, byte) in given.iter().enumerate() {
        let other = if expected.is_empty() {
            !byte
        } else {
            expected[index % expected.len()]
        };
        difference = std::hint::black_box(difference | (byte ^ other));
    }
    difference == 0
}

/// The user and password of a PLAIN token; `None` unless it has exactly the
/// parts authorization id, user and password, the latter two not empty, and the
/// first empty or the user.
pub(crate) fn parse_plain(token: &[u8]) -> Option<(&str, &[u8])> {
    let mut parts = token.split(|&byte| byte == 0);
    let (authorization_id, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let acts_as_itself = authorization_id.is_empty() || authorization_id == user;
    if parts.next().is_some() || user.is_empty() || password.is_empty() || !acts_as_itself {
        return None;
    }
    Some((std::str::from_utf8(user).ok()?, password))
}

/// The token of a user.
pub(crate) fn encode_plain(user: &str, password: &str) -> Vec<u8> {
    [&b""[..], user.as_bytes(), password.as_bytes()].join(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_three_parts_and_the_user_acts_as_itself() {
        assert_eq!(parse_plain(b"\0admin\0pw"), Some(("admin", &b"pw"[..])));
        assert_eq!(
            parse_plain(b"admin\0admin\0pw"),
            Some(("admin", &b"pw"[..]))
        );
        assert_eq!(
            parse_plain(&encode_plain("admin", "pw")),
            Some(("admin", &b"pw"[..]))
        );
        let wrong: [&[u8]; 9] = [
            b"",
            b"admin",
            b"admin\0pw",
            b"\0admin\0pw\0",
            b"\0admin\0pw\0x",
            b"\0\0pw",
            b"\0admin\0",
            b"other\0admin\0pw",
            b"\0\xFF\0pw",
        ];
        for token in wrong {
            assert_eq!(parse_plain(token), None, "{token:?}");
        }
    }

    #[test]
    fn only_the_whole_password_is_right() {
        let map = PasswordMap::new(HashMap::from([("admin".into(), "secret".into())]));
        assert!(map.verify("CLIENT", "admin", b"secret"));
        for wrong in [
            &b"secre"[..],
            b"secrets",
            b"secretsecret",
            b"Secret",
            b"",
            b"no such user",
        ] {
            assert!(!map.verify("CLIENT", "admin", wrong), "{wrong:?}");
        }
        assert!(!map.verify("CLIENT", "nobody", b"secret"));
        assert!(!map.verify("CLIENT", "nobody", b"no such user"));
        map.replace(HashMap::new());
        assert!(!map.verify("CLIENT", "admin", b"secret"));
    }

    #[test]
    fn an_empty_password_matches_nothing() {
        let map = PasswordMap::new(HashMap::from([("admin".into(), String::new())]));
        assert!(!map.verify("CLIENT", "admin", b"x"));
        assert!(parse_plain(b"\0admin\0").is_none());
    }

    #[test]
    fn passwords_do_not_show_in_debug_output() {
        let map = PasswordMap::new(HashMap::from([("admin".into(), "hunter2".into())]));
        assert!(!format!("{map:?}").contains("hunter2"));
    }
}
