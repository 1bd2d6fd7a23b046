//! The requests that every connection answers by itself: ApiVersions and
//! Authenticate, and what may come before the latter (wire.md §2.3, §3.2).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, AuthenticateRequest, AuthenticateResponse,
    PbApiVersion,
};
use mainstem_protocol::{ApiError, ApiKey, RequestHeader, decode};
use mainstem_types::ErrorCode;
use prost::Message;

use crate::sasl::{Credentials, PLAIN, parse_plain};
use crate::{Response, Segment};

/// Name of the principal of a connection without authentication.
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

/// Back-off after the second wrong login of a connection; doubles up to 64
/// times this.
const LOGIN_BACKOFF: Duration = Duration::from_millis(50);

/// How the peers of a listener prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Not at all.
    Plaintext,
    /// By SASL, mechanism PLAIN.
    Sasl,
}

/// The APIs that a server offers, as found by their key.
#[derive(Debug)]
pub(crate) struct ApiTable {
    /// (key, lowest, highest version), ascending.
    ranges: Vec<(i16, i16, i16)>,
    /// The answer to ApiVersions. It has no `server_type`: the listener may
    /// serve both roles.
    answer: Bytes,
}

impl ApiTable {
    /// Adds the two APIs of this module, which clients insist on.
    pub(crate) fn new(apis: &[(i16, i16, i16)]) -> Self {
        let mut ranges = apis.to_vec();
        ranges.retain(|(key, ..)| !is_own(*key));
        for own in [ApiKey::ApiVersions, ApiKey::Authenticate] {
            ranges.push((own.code(), own.versions().min, own.versions().max));
        }
        ranges.sort_unstable();
        ranges.dedup_by_key(|(key, ..)| *key);
        let api_versions = ranges
            .iter()
            .map(|&(key, min, max)| PbApiVersion {
                api_key: Some(key.into()),
                min_version: Some(min.into()),
                max_version: Some(max.into()),
            })
            .collect();
        let answer = ApiVersionsResponse {
            api_versions,
            server_type: None,
        };
        ApiTable {
            ranges,
            answer: Bytes::from(answer.encode_to_vec()),
        }
    }

    /// # Errors
    ///
    /// UNSUPPORTED_VERSION if the API is not offered, or not in the version.
    pub(crate) fn check(&self, header: &RequestHeader) -> Result<(), ApiError> {
        let RequestHeader {
            api_key,
            api_version,
            ..
        } = *header;
        let unsupported = |text| Err(ApiError::new(ErrorCode::UnsupportedVersion, text));
        let Ok(index) = self.ranges.binary_search_by_key(&api_key, |(key, ..)| *key) else {
            let name = ApiKey::from_code(api_key).map_or("unknown", ApiKey::name);
            return unsupported(format!("API {api_key} ({name}) is not served here"));
        };
        let (_, min, max) = self.ranges[index];
        if !(min..=max).contains(&api_version) {
            return unsupported(format!(
                "version {api_version} of API {api_key} is not in the range {min} to {max}"
            ));
        }
        Ok(())
    }
}

fn is_own(key: i16) -> bool {
    key == ApiKey::ApiVersions.code() || key == ApiKey::Authenticate.code()
}

/// What to do with a request.
#[derive(Debug)]
pub(crate) enum Decision {
    /// It is for the service.
    Pass,
    /// Answer it.
    Answer(Response),
    /// Answer it; the connection is now authenticated as this user.
    Authenticated(String),
    /// Answer with an error after a while, and read nothing in between: a wrong
    /// login.
    Rejected(Response, Duration),
}

/// Where a connection stands. A pure state machine.
pub(crate) struct Handshake {
    apis: Arc<ApiTable>,
    listener: String,
    protocol: SecurityProtocol,
    credentials: Arc<dyn Credentials>,
    authenticated: bool,
    wrong_logins: u32,
}

impl Handshake {
    pub(crate) fn new(
        apis: Arc<ApiTable>,
        listener: &str,
        protocol: SecurityProtocol,
        credentials: Arc<dyn Credentials>,
    ) -> Self {
        let authenticated = protocol == SecurityProtocol::Plaintext;
        Handshake {
            listener: listener.to_owned(),
            apis,
            protocol,
            credentials,
            authenticated,
            wrong_logins: 0,
        }
    }

    /// Whether requests may pass.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Judges a request.
    pub(crate) fn on_request(&mut self, header: &RequestHeader, body: &Bytes) -> Decision {
        if !self.authenticated && !is_own(header.api_key) {
            return Decision::Answer(denied("authenticate first").into());
        }
        if let Err(error) = self.apis.check(header) {
            return Decision::Answer(error.into());
        }
        if !is_own(header.api_key) {
            return Decision::Pass;
        }
        if header.api_key == ApiKey::ApiVersions.code() {
            return Decision::Answer(self.api_versions(body));
        }
        match decode(body.clone()) {
            Ok(request) => self.authenticate(request),
            Err(error) if self.authenticated => Decision::Answer(ApiError::from(error).into()),
            Err(error) => Decision::Answer(denied(&error.to_string()).into()),
        }
    }

    fn api_versions(&self, body: &Bytes) -> Response {
        match decode::<ApiVersionsRequest>(body.clone()) {
            Ok(_) => Response::Success(vec![Segment::Bytes(self.apis.answer.clone())]),
            Err(error) => ApiError::from(error).into(),
        }
    }

    fn authenticate(&mut self, request: AuthenticateRequest) -> Decision {
        let mechanism = request.protocol.unwrap_or_default();
        if self.protocol == SecurityProtocol::Plaintext {
            return Decision::Answer(if mechanism.eq_ignore_ascii_case("PLAINTEXT") {
                success()
            } else {
                denied("this listener does not authenticate").into()
            });
        }
        if mechanism != PLAIN {
            return Decision::Answer(denied("the only mechanism here is PLAIN").into());
        }
        if self.authenticated {
            // fluss-rs sends another token if it was told to (wire.md §3.3). The
            // identity stays.
            return Decision::Answer(success());
        }
        let token = request.token.unwrap_or_default();
        if let Some((user, password)) = parse_plain(&token)
            && self.credentials.verify(&self.listener, user, password)
        {
            self.authenticated = true;
            return Decision::Authenticated(user.to_owned());
        }
        self.wrong_logins += 1;
        let delay = match self.wrong_logins {
            1 => Duration::ZERO,
            many => LOGIN_BACKOFF * (1 << (many - 2).min(6)),
        };
        // One text for everything that is wrong with a login.
        Decision::Rejected(denied("wrong user or password").into(), delay)
    }
}

/// Without a challenge: a present one, even if empty, asks some clients for
/// another token.
pub(crate) fn success() -> Response {
    Response::message(&AuthenticateResponse::default())
}

fn denied(text: &str) -> ApiError {
    ApiError::new(ErrorCode::Authenticate, text)
}

#[cfg(test)]
mod tests;
