//! Listeners: where a server accepts connections, what clients are told, and how
//! each connection proves who it is (wire.md §3.1).

use std::collections::BTreeMap;
use std::fmt;

/// Name of the listener when nothing else is configured.
pub const DEFAULT_LISTENER_NAME: &str = "FLUSS";

/// `bind.listeners` when it is not set: loopback only, another host is a
/// deliberate setting.
pub const DEFAULT_BIND_LISTENERS: &str = "FLUSS://127.0.0.1:9123";

/// More listeners than this in one list are refused: each is a socket.
const MAX_LISTENERS: usize = 64;

/// A host and a port. The host is a name or an address, IPv6 without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// Port; 0 lets the system choose when binding.
    pub port: u16,
}

impl HostPort {
    /// Parses `host:port` or `[ipv6]:port`.
    ///
    /// # Errors
    /// What is wrong with the text, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest
                .split_once("]:")
                .ok_or_else(|| format!("'{text}' is not '[address]:port'"))?,
            None => text
                .rsplit_once(':')
                .ok_or_else(|| format!("'{text}' has no port"))?,
        };
        if host.contains(':') && !text.starts_with('[') {
            return Err(format!(
                "'{text}': write an IPv6 address in brackets, '[::1]:9123'"
            ));
        }
        if host.is_empty() {
            return Err(format!(
                "'{text}' has no host, write 0.0.0.0 for all interfaces"
            ));
        }
        if let Some(bad) = host
            .chars()
            .find(|c| !c.is_ascii_alphanumeric() && !"-._:%".contains(*c))
        {
            return Err(format!("'{text}': a host cannot contain {bad:?}"));
        }
        let port = port
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| port.parse().ok())
            .flatten()
            .ok_or_else(|| format!("'{text}': the port must be a number from 0 to 65535"))?;
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// Whether the host stands for every interface, so that no client can use it.
    pub fn is_unspecified(&self) -> bool {
        self.host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_unspecified())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// `NAME://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener.
    pub name: String,
    /// Where it is.
    pub address: HostPort,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.name, self.address)
    }
}

/// Parses a comma-separated list of endpoints, as `bind.listeners`,
/// `advertised.listeners` and the metadata store hold it.
///
/// # Errors
/// A sentence about the first bad endpoint, or about a name that occurs twice.
pub fn parse_endpoints(text: &str) -> Result<Vec<Endpoint>, String> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for item in text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (name, address) = item
            .split_once("://")
            .ok_or_else(|| format!("'{item}' is not of the form NAME://host:port"))?;
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        {
            return Err(format!(
                "'{item}': a listener name consists of letters, digits, '_', '-' and '.'"
            ));
        }
        if endpoints.iter().any(|endpoint| endpoint.name == name) {
            return Err(format!("listener '{name}' is there twice"));
        }
        if endpoints.len() == MAX_LISTENERS {
            return Err(format!("more than {MAX_LISTENERS} listeners"));
        }
        endpoints.push(Endpoint {
            name: name.to_owned(),
            address: HostPort::parse(address)?,
        });
    }
    if endpoints.is_empty() {
        return Err("there is no listener, write for example FLUSS://127.0.0.1:9123".to_owned());
    }
    Ok(endpoints)
}

/// How a connection proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Not at all: everyone is `ANONYMOUS`.
    Plaintext,
    /// SASL must succeed before anything else is answered.
    Sasl,
}

impl Protocol {
    /// Parses `PLAINTEXT` or `SASL` in any case.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("PLAINTEXT") {
            Some(Self::Plaintext)
        } else if text.eq_ignore_ascii_case("SASL") {
            Some(Self::Sasl)
        } else {
            None
        }
    }
}

/// One socket that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Name; a client that came in here is told the endpoints of this name only.
    pub name: String,
    /// Host to bind.
    pub host: String,
    /// Port to bind; 0 lets the system choose.
    pub port: u16,
    /// How connections authenticate.
    pub protocol: Protocol,
    /// Whether servers talk to each other here: only here are private APIs
    /// served, and no authorization is asked.
    pub internal: bool,
    /// What clients are told; `None` = the address that was really bound.
    pub advertised: Option<HostPort>,
}

impl Listener {
    /// The address to bind.
    pub fn bind_address(&self) -> HostPort {
        HostPort {
            host: self.host.clone(),
            port: self.port,
        }
    }

    /// What clients are told, once the bound port is known.
    pub fn advertised_address(&self, bound_port: u16) -> HostPort {
        self.advertised.clone().unwrap_or_else(|| HostPort {
            host: self.host.clone(),
            port: bound_port,
        })
    }
}

/// Why a set of listeners cannot be: the key to blame and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerProblem {
    /// The configuration key.
    pub key: &'static str,
    /// What is wrong with its value.
    pub problem: String,
}

/// Combines the four listener settings. Any names are accepted: without one that
/// `internal_name` fits, no listener is internal.
///
/// # Errors
/// The key to blame and what is wrong.
pub fn resolve(
    bind: &str,
    advertised: Option<&str>,
    protocol_map: &BTreeMap<String, String>,
    internal_name: &str,
) -> Result<Vec<Listener>, ListenerProblem> {
    let bound = parse_endpoints(bind).map_err(|problem| ListenerProblem {
        key: "bind.listeners",
        problem,
    })?;
    for (index, endpoint) in bound.iter().enumerate() {
        let clash = bound[..index]
            .iter()
            .find(|earlier| endpoint.address.port != 0 && earlier.address == endpoint.address);
        if let Some(earlier) = clash {
            let problem = format!(
                "listeners '{}' and '{}' both want {}",
                earlier.name, endpoint.name, endpoint.address
            );
            return Err(ListenerProblem {
                key: "bind.listeners",
                problem,
            });
        }
    }
    let advertised = resolve_advertised(advertised, &bound).map_err(|problem| ListenerProblem {
        key: "advertised.listeners",
        problem,
    })?;
    bound
        .into_iter()
        .map(|endpoint| {
            let protocol = match protocol_map.get(&endpoint.name) {
                None => Protocol::Plaintext,
                Some(text) => Protocol::parse(text).ok_or_else(|| ListenerProblem {
                    key: "security.protocol.map",
                    problem: format!(
                        "'{text}' of listener '{}' is not a protocol (PLAINTEXT and SASL are)",
                        endpoint.name
                    ),
                })?,
            };
            Ok(Listener {
                internal: endpoint.name == internal_name,
                advertised: advertised.get(&endpoint.name).cloned(),
                name: endpoint.name,
                host: endpoint.address.host,
                port: endpoint.address.port,
                protocol,
            })
        })
        .collect()
}

fn resolve_advertised(
    advertised: Option<&str>,
    bound: &[Endpoint],
) -> Result<BTreeMap<String, HostPort>, String> {
    let Some(text) = advertised else {
        return Ok(BTreeMap::new());
    };
    let mut addresses = BTreeMap::new();
    for endpoint in parse_endpoints(text)? {
        if !bound.iter().any(|listener| listener.name == endpoint.name) {
            return Err(format!(
                "listener '{}' is not in bind.listeners, so nobody would answer there",
                endpoint.name
            ));
        }
        if endpoint.address.port == 0 {
            return Err(format!("'{endpoint}': clients cannot connect to port 0"));
        }
        addresses.insert(endpoint.name, endpoint.address);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn check_refused(bind: &str, advertised: Option<&str>, key: &str, fragment: &str) {
        let problem = resolve(bind, advertised, &map(&[]), "FLUSS").unwrap_err();
        assert_eq!(problem.key, key);
        assert!(problem.problem.contains(fragment), "{}", problem.problem);
    }

    #[test]
    fn the_default_is_one_internal_plaintext_listener_on_loopback() {
        let listeners = resolve(DEFAULT_BIND_LISTENERS, None, &map(&[]), "FLUSS").unwrap();
        assert_eq!(
            listeners,
            [Listener {
                name: "FLUSS".into(),
                host: "127.0.0.1".into(),
                port: 9123,
                protocol: Protocol::Plaintext,
                internal: true,
                advertised: None,
            }]
        );
        assert_eq!(
            listeners[0].advertised_address(40_000).to_string(),
            "127.0.0.1:40000"
        );
    }

    #[test]
    fn several_listeners_each_have_their_protocol_and_advertised_address() {
        let listeners = resolve(
            "FLUSS://0.0.0.0:9120, CLIENT://0.0.0.0:9123,PLAIN_CLIENT://[::1]:0",
            Some("CLIENT://db.example.com:19123"),
            &map(&[("CLIENT", "sasl"), ("PLAIN_CLIENT", "Plaintext")]),
            "FLUSS",
        )
        .unwrap();
        let summary: Vec<_> = listeners
            .iter()
            .map(|l| (l.bind_address().to_string(), l.protocol, l.internal))
            .collect();
        assert_eq!(
            summary,
            [
                ("0.0.0.0:9120".into(), Protocol::Plaintext, true),
                ("0.0.0.0:9123".into(), Protocol::Sasl, false),
                ("[::1]:0".into(), Protocol::Plaintext, false),
            ]
        );
        assert_eq!(
            listeners[1].advertised_address(9123).to_string(),
            "db.example.com:19123"
        );
        assert!(listeners[0].bind_address().is_unspecified());
        assert!(!listeners[2].bind_address().is_unspecified());
    }

    #[test]
    fn without_the_internal_name_no_listener_is_internal() {
        let listeners = resolve("A://h:1,B://h:2", None, &map(&[]), "FLUSS").unwrap();
        assert!(listeners.iter().all(|listener| !listener.internal));
    }

    #[test]
    fn bad_bind_lists_are_refused() {
        for (bind, fragment) in [
            ("", "no listener"),
            (" , ", "no listener"),
            ("localhost:9123", "NAME://host:port"),
            ("://h:1", "listener name"),
            ("A B://h:1", "listener name"),
            ("A://h", "no port"),
            ("A://:1", "no host"),
            ("A://h:", "the port must be"),
            ("A://h:65536", "the port must be"),
            ("A://h:+1", "the port must be"),
            ("A://h:-1", "the port must be"),
            ("A://::1:9123", "brackets"),
            ("A://[::1]9123", "[address]:port"),
            ("A://h h:1", "cannot contain"),
            ("A://h:1,A://h:2", "twice"),
            ("A://h:1,B://h:1", "both want h:1"),
        ] {
            check_refused(bind, None, "bind.listeners", fragment);
        }
        let many: Vec<String> = (0..65).map(|i| format!("L{i}://h:{}", i + 1)).collect();
        check_refused(&many.join(","), None, "bind.listeners", "more than 64");
    }

    #[test]
    fn bad_advertised_lists_are_refused() {
        for (advertised, fragment) in [
            ("B://h:1", "not in bind.listeners"),
            ("A://h:0", "port 0"),
            ("A://h", "no port"),
        ] {
            check_refused(
                "A://h:1",
                Some(advertised),
                "advertised.listeners",
                fragment,
            );
        }
    }

    #[test]
    fn an_unknown_protocol_is_refused() {
        let problem = resolve("A://h:1", None, &map(&[("A", "SSL")]), "A").unwrap_err();
        assert_eq!(problem.key, "security.protocol.map");
        assert!(problem.problem.contains("'SSL' of listener 'A'"));
    }

    #[test]
    fn two_listeners_may_both_take_any_port() {
        assert_eq!(
            resolve("A://h:0,B://h:0", None, &map(&[]), "A")
                .unwrap()
                .len(),
            2
        );
    }
}
