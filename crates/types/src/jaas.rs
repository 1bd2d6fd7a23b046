//! Users and passwords of SASL/PLAIN: the JAAS line and the credentials map
//! (wire.md §3.1, cluster.md §8.2).

use std::collections::BTreeMap;
use std::fmt;

/// A JAAS text longer than this is refused (about 10,000 users).
const MAX_TEXT_BYTES: usize = 1 << 20;

/// A password. It never shows in `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether `candidate` is this password, without an early end at the first
    /// differing byte that would tell an attacker how much was right.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let mut difference = u8::from(own.len() != candidate.len());
        for (index, byte) in candidate.iter().enumerate() {
            difference |= byte ^ own.get(index).copied().unwrap_or(0xff);
        }
        difference == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("******")
    }
}

/// Users and their passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users(BTreeMap<String, Password>);

impl Users {
    /// Reads the users of a JAAS text: one entry
    /// `…PlainLoginModule required user_alice="secret" user_bob="s2";`.
    /// Options that do not begin with `user_` are ignored.
    ///
    /// # Errors
    /// A sentence about what does not parse. It never quotes a value.
    pub fn from_jaas(text: &str) -> Result<Self, String> {
        let entry = LoginModule::parse(text)?;
        let class = entry.class.rsplit('.').next().unwrap_or_default();
        if class != "PlainLoginModule" {
            return Err(format!(
                "login module '{class}' is not supported, PlainLoginModule is"
            ));
        }
        let users = entry
            .options
            .into_iter()
            .filter_map(|(key, value)| {
                let user = key.strip_prefix("user_")?;
                Some((user.to_owned(), Password::new(value)))
            })
            .collect();
        Ok(Self(users))
    }

    /// Reads `security.sasl.plain.credentials`: `user:password,…`.
    ///
    /// # Errors
    /// A sentence about the first entry that does not parse. It never quotes a
    /// password.
    pub fn from_credentials(text: &str) -> Result<Self, String> {
        let mut users = BTreeMap::new();
        for entry in text
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
        {
            let (user, password) = parse_credential(entry)?;
            if users
                .insert(user.to_owned(), Password::new(password))
                .is_some()
            {
                return Err(format!("user '{user}' is there twice"));
            }
        }
        Ok(Self(users))
    }

    /// These users, with those of `other` added; on the same name `other` wins.
    pub fn overlaid_with(mut self, other: &Self) -> Self {
        self.0.extend(
            other
                .0
                .iter()
                .map(|(user, password)| (user.clone(), password.clone())),
        );
        self
    }

    /// Whether the user exists and has this password. An empty user or password
    /// never does.
    pub fn verify(&self, user: &str, password: &[u8]) -> bool {
        !password.is_empty()
            && self
                .0
                .get(user)
                .is_some_and(|known| known.matches(password))
    }

    /// Names of the users, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether there is no user, so that nobody can log in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits one `user:password` and checks both parts: word characters in the user;
/// no `,` `:` `"` `;` `\` or control character in the password.
///
/// # Errors
/// A sentence that never quotes the password.
pub fn parse_credential(entry: &str) -> Result<(&str, &str), String> {
    let (user, password) = entry
        .split_once(':')
        .ok_or("an entry is not of the form user:password")?;
    if user.is_empty()
        || !user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Err(format!(
            "user name '{user}' must consist of letters, digits and '_'"
        ));
    }
    if password.is_empty() {
        return Err(format!("the password of user '{user}' is empty"));
    }
    if password
        .chars()
        .any(|c| c.is_control() || ",:\";\\".contains(c))
    {
        return Err(format!(
            "the password of user '{user}' contains ',', ':', '\"', ';', '\\' or a control character"
        ));
    }
    Ok((user, password))
}

/// One entry of a JAAS file: `class flag key=value … ;`.
struct LoginModule {
    class: String,
    options: BTreeMap<String, String>,
}

impl LoginModule {
    fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT_BYTES {
            return Err("the JAAS text is longer than 1 MiB".to_owned());
        }
        let mut tokens = Tokens {
            rest: text.chars().collect::<Vec<_>>(),
            at: 0,
        };
        let Some(Token::Text(class)) = tokens.next()? else {
            return Err("it does not begin with the class of a login module".to_owned());
        };
        match tokens.next()? {
            Some(Token::Text(flag))
                if ["required", "requisite", "sufficient", "optional"]
                    .iter()
                    .any(|known| flag.eq_ignore_ascii_case(known)) => {}
            _ => return Err("'required' must follow the class of the login module".to_owned()),
        }
        let mut options = BTreeMap::new();
        loop {
            let key = match tokens.next()? {
                Some(Token::Semicolon) => break,
                Some(Token::Text(key)) => key,
                Some(Token::Equals) => return Err("an '=' has no name before it".to_owned()),
                None => return Err("the ';' at its end is missing".to_owned()),
            };
            match (tokens.next()?, tokens.next()?) {
                (Some(Token::Equals), Some(Token::Text(value))) => {
                    options.insert(key, value);
                }
                // Not naming the key: without the '=' it may be part of a password.
                _ => return Err("an option is not of the form name=\"value\"".to_owned()),
            }
        }
        if tokens.next()?.is_some() {
            return Err("it has more than one login module".to_owned());
        }
        Ok(Self { class, options })
    }
}

enum Token {
    Text(String),
    Equals,
    Semicolon,
}

struct Tokens {
    rest: Vec<char>,
    at: usize,
}

impl Tokens {
    fn next(&mut self) -> Result<Option<Token>, String> {
        while self.rest.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        let Some(&first) = self.rest.get(self.at) else {
            return Ok(None);
        };
        match first {
            '=' => {
                self.at += 1;
                Ok(Some(Token::Equals))
            }
            ';' => {
                self.at += 1;
                Ok(Some(Token::Semicolon))
            }
            '"' | '\'' => self.quoted(first).map(|text| Some(Token::Text(text))),
            _ => {
                let start = self.at;
                while self
                    .rest
                    .get(self.at)
                    .is_some_and(|c| !c.is_whitespace() && !"=;\"'".contains(*c))
                {
                    self.at += 1;
                }
                Ok(Some(Token::Text(
                    self.rest[start..self.at].iter().collect(),
                )))
            }
        }
    }

    /// A value in quotes; a backslash takes the next character as it is.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(&c) = self.rest.get(self.at) else {
                return Err("a quoted value does not end".to_owned());
            };
            self.at += 1;
            match c {
                _ if c == quote => return Ok(text),
                '\\' => {
                    let escaped = self
                        .rest
                        .get(self.at)
                        .ok_or("a quoted value does not end")?;
                    self.at += 1;
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => *other,
                    });
                }
                _ => text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: &str = "org.apache.fluss.security.auth.sasl.plain.PlainLoginModule";

    #[test]
    fn the_line_of_the_official_test_cluster_is_read() {
        let users = Users::from_jaas(&format!(
            "{CLASS} required user_admin=\"admin-secret\" user_alice=\"alice-secret\";"
        ))
        .unwrap();
        assert_eq!(users.names().collect::<Vec<_>>(), ["admin", "alice"]);
        assert!(users.verify("admin", b"admin-secret"));
        assert!(!users.verify("admin", b"alice-secret"));
        assert!(!users.verify("admin", b"admin-secre"));
        assert!(!users.verify("admin", b"admin-secret2"));
        assert!(!users.verify("bob", b"x"));
        assert!(!users.verify("", b""));
    }

    #[test]
    fn layout_quotes_flags_and_escapes_vary() {
        let users = Users::from_jaas(
            "PlainLoginModule  Required\n  username=\"s\" user_a='b' user_q=\"a\\\"b\\\\\"\n user_w=word ;  ",
        )
        .unwrap();
        assert_eq!(users.names().collect::<Vec<_>>(), ["a", "q", "w"]);
        assert!(users.verify("q", b"a\"b\\"));
        assert!(users.verify("w", b"word"));
    }

    #[test]
    fn texts_that_do_not_parse_are_refused_without_quoting_a_password() {
        for (text, fragment) in [
            ("", "does not begin"),
            ("PlainLoginModule", "'required' must follow"),
            (
                "PlainLoginModule user_a=\"hush\";",
                "'required' must follow",
            ),
            (
                "PlainLoginModule required user_a=\"hush\"",
                "';' at its end",
            ),
            ("PlainLoginModule required user_a=\"hush", "does not end"),
            ("PlainLoginModule required user_a=\"hush\\", "does not end"),
            (
                "PlainLoginModule required user_a \"hush\";",
                "name=\"value\"",
            ),
            ("PlainLoginModule required =\"hush\";", "no name"),
            (
                "PlainLoginModule required a=\"hush\"; PlainLoginModule required;",
                "more than one",
            ),
            (
                "ScramLoginModule required user_a=\"hush\";",
                "'ScramLoginModule' is not supported",
            ),
        ] {
            let problem = Users::from_jaas(text).unwrap_err();
            assert!(problem.contains(fragment), "{text}: {problem}");
            assert!(!problem.contains("hush"), "{problem}");
        }
        assert!(
            Users::from_jaas(&" ".repeat(2 << 20))
                .unwrap_err()
                .contains("1 MiB")
        );
    }

    #[test]
    fn credentials_are_read_and_checked() {
        let users = Users::from_credentials("carol:pw1, dave:p w!2").unwrap();
        assert!(users.verify("carol", b"pw1") && users.verify("dave", b"p w!2"));
        assert!(Users::from_credentials("").unwrap().is_empty());
        for (text, fragment) in [
            ("carol", "user:password"),
            ("ca rol:pw", "user name 'ca rol'"),
            (":pw", "user name ''"),
            ("carol:", "empty"),
            ("carol:a:b", "contains"),
            ("carol:a;b", "contains"),
            ("carol:a\u{7}b", "contains"),
            ("carol:a,carol:b", "twice"),
        ] {
            let problem = Users::from_credentials(text).unwrap_err();
            assert!(problem.contains(fragment), "{text}: {problem}");
        }
    }

    #[test]
    fn credentials_win_over_the_jaas_text() {
        let jaas =
            Users::from_jaas("PlainLoginModule required user_a=\"1\" user_b=\"2\";").unwrap();
        let users = jaas.overlaid_with(&Users::from_credentials("b:3,c:4").unwrap());
        assert!(users.verify("a", b"1") && users.verify("b", b"3") && users.verify("c", b"4"));
        assert!(!users.verify("b", b"2"));
    }

    #[test]
    fn passwords_do_not_show_in_debug_output() {
        let users = Users::from_credentials("carol:hush").unwrap();
        assert_eq!(format!("{users:?}"), "Users({\"carol\": ******})");
    }
}
