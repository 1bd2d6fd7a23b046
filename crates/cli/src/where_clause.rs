//! `--where`: a condition in the words of SQL, parsed into a [`Filter`].
//!
//! `or`, `and`, `not`, parentheses, `=`, `<>`, `!=`, `<`, `<=`, `>`, `>=`,
//! `is [not] null`, `[not] in (…)`, `[not] like '…'`, `[not] between … and …`.
//! Literals: numbers, `'text'` with `''` for a quote, `true`, `false`. Columns:
//! plain words, or any text in double quotes.

use anyhow::{Result, bail};
use mainstem_client::{Comparison, Filter};

/// Deepest nesting of parentheses and `not`.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Literal(String),
    Symbol(&'static str),
}

/// Parses a condition.
///
/// # Errors
/// What was expected, and what stood there.
pub fn parse(text: &str) -> Result<Filter> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
    };
    let filter = parser.disjunction(0)?;
    if let Some(token) = parser.peek() {
        bail!("--where: unexpected {} behind the condition", show(token));
    }
    Ok(filter)
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    const SYMBOLS: [&str; 11] = ["<>", "!=", "<=", ">=", "=", "<", ">", "(", ")", ",", "-"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '\'' || first == '"' {
            let (content, behind) = quoted(rest, first)?;
            tokens.push(if first == '"' {
                Token::Quoted(content)
            } else {
                Token::Literal(content)
            });
            rest = behind;
        } else if first.is_ascii_digit() {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
                .unwrap_or(rest.len());
            tokens.push(Token::Literal(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            bail!("--where: unexpected '{first}'");
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// The text between quotes, and what stands behind them.
fn quoted(text: &str, quote: char) -> Result<(String, &str)> {
    let mut content = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((position, letter)) = letters.next() {
        if letter != quote {
            content.push(letter);
        } else if letters.peek().is_some_and(|(_, next)| *next == quote) {
            letters.next();
            content.push(quote);
        } else {
            return Ok((content, &text[position + 1..]));
        }
    }
    bail!("--where: {quote} is not closed")
}

fn show(token: &Token) -> String {
    match token {
        Token::Word(word) => format!("'{word}'"),
        Token::Quoted(name) => format!("\"{name}\""),
        Token::Literal(text) => format!("'{text}'"),
        Token::Symbol(symbol) => format!("'{symbol}'"),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found =
            matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        self.next += usize::from(found);
        found
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        match self.peek() {
            Some(token) => bail!("--where: expected {what}, found {}", show(token)),
            None => bail!("--where: expected {what} at the end"),
        }
    }

    fn disjunction(&mut self, depth: usize) -> Result<Filter> {
        let mut parts = vec![self.conjunction(depth)?];
        while self.take_word("or") {
            parts.push(self.conjunction(depth)?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Filter::Or(parts)
        })
    }

    fn conjunction(&mut self, depth: usize) -> Result<Filter> {
        let mut parts = vec![self.condition(depth)?];
        while self.take_word("and") {
            parts.push(self.condition(depth)?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Filter::And(parts)
        })
    }

    fn condition(&mut self, depth: usize) -> Result<Filter> {
        if depth > MAX_DEPTH {
            bail!("--where: nested deeper than {MAX_DEPTH}");
        }
        if self.take_word("not") {
            return Ok(Filter::Not(Box::new(self.condition(depth + 1)?)));
        }
        if self.take_symbol("(") {
            let inner = self.disjunction(depth + 1)?;
            return if self.take_symbol(")") {
                Ok(inner)
            } else {
                self.expected("')'")
            };
        }
        let column = match self.peek() {
            Some(Token::Word(name) | Token::Quoted(name)) => name.clone(),
            _ => return self.expected("a column"),
        };
        self.next += 1;
        self.test_of(column)
    }

    fn test_of(&mut self, column: String) -> Result<Filter> {
        if self.take_word("is") {
            let is_null = !self.take_word("not");
            if !self.take_word("null") {
                return self.expected("null");
            }
            return Ok(Filter::Null { column, is_null });
        }
        let negated = self.take_word("not");
        let filter = if self.take_word("in") {
            self.list(column)?
        } else if self.take_word("like") {
            Filter::Like {
                column,
                pattern: self.literal()?,
            }
        } else if self.take_word("between") {
            let low = self.literal()?;
            if !self.take_word("and") {
                return self.expected("and");
            }
            let high = self.literal()?;
            let side = |comparison, literal| Filter::Compare {
                column: column.clone(),
                comparison,
                literal,
            };
            Filter::And(vec![
                side(Comparison::GreaterOrEqual, low),
                side(Comparison::LessOrEqual, high),
            ])
        } else if negated {
            return self.expected("in, like or between");
        } else {
            Filter::Compare {
                column,
                comparison: self.comparison()?,
                literal: self.literal()?,
            }
        };
        Ok(if negated {
            Filter::Not(Box::new(filter))
        } else {
            filter
        })
    }

    fn list(&mut self, column: String) -> Result<Filter> {
        if !self.take_symbol("(") {
            return self.expected("'('");
        }
        let mut literals = vec![self.literal()?];
        while self.take_symbol(",") {
            literals.push(self.literal()?);
        }
        if !self.take_symbol(")") {
            return self.expected("')'");
        }
        Ok(Filter::In { column, literals })
    }

    fn comparison(&mut self) -> Result<Comparison> {
        let Some(Token::Symbol(symbol)) = self.peek() else {
            return self.expected("a comparison");
        };
        let comparison = match *symbol {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return self.expected("a comparison"),
        };
        self.next += 1;
        Ok(comparison)
    }

    fn literal(&mut self) -> Result<String> {
        let sign = if self.take_symbol("-") { "-" } else { "" };
        let text = match self.peek() {
            Some(Token::Literal(text)) => format!("{sign}{text}"),
            Some(Token::Word(word))
                if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") =>
            {
                word.to_lowercase()
            }
            _ => return self.expected("a literal"),
        };
        self.next += 1;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(column: &str, comparison: Comparison, literal: &str) -> Filter {
        Filter::Compare {
            column: column.into(),
            comparison,
            literal: literal.into(),
        }
    }

    #[test]
    fn and_binds_closer_than_or() {
        let parsed = parse("a = 1 or b > -2.5 AND \"c d\" <> 'it''s'").expect("parses");
        let right = Filter::And(vec![
            compare("b", Comparison::Greater, "-2.5"),
            compare("c d", Comparison::NotEqual, "it's"),
        ]);
        assert_eq!(
            parsed,
            Filter::Or(vec![compare("a", Comparison::Equal, "1"), right])
        );
    }

    #[test]
    fn between_in_like_and_null_tests_can_be_negated() {
        let parsed = parse("not (a is not null) and b not in (1, 2) and c not like 'x%'");
        let Ok(Filter::And(parts)) = parsed else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            parts[0],
            Filter::Not(Box::new(Filter::Null {
                column: "a".into(),
                is_null: false
            }))
        );
        assert!(matches!(&parts[1], Filter::Not(inner) if matches!(**inner, Filter::In { .. })));
        let Ok(Filter::And(range)) = parse("d between 1 and 5") else {
            panic!("no range")
        };
        assert_eq!(range[1], compare("d", Comparison::LessOrEqual, "5"));
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, expected) in [
            ("", "expected a column at the end"),
            ("a", "expected a comparison at the end"),
            ("a = b", "expected a literal, found 'b'"),
            ("a = 1 b", "unexpected 'b' behind the condition"),
            ("a = 'x", "' is not closed"),
            ("a in (1", "expected ')' at the end"),
            ("a ; 1", "unexpected ';'"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = format!("{}a = 1", "not ".repeat(1_000));
        assert!(
            parse(&deep)
                .unwrap_err()
                .to_string()
                .contains("nested deeper")
        );
    }
}
