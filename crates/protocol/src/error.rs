//! Errors as they stand in messages (wire.md §5.3).

use mainstem_types::ErrorCode;

use crate::decode::DecodeError;
use crate::messages::ErrorResponse;

/// What a request, or one entry of it, is refused with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// Never [`ErrorCode::None`].
    pub code: ErrorCode,
    /// Text for the user; empty leaves it to the client.
    pub message: String,
}

impl ApiError {
    /// An error with a text.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ApiError {
            code,
            message: message.into(),
        }
    }

    /// The fields `error_code` and `error_message` of an entry. Presence of the
    /// code means failure, so they are absent on success.
    pub fn fields(&self) -> (Option<i32>, Option<String>) {
        let text = (!self.message.is_empty()).then(|| self.message.clone());
        (Some(self.code.code()), text)
    }
}

impl From<ApiError> for ErrorResponse {
    fn from(error: ApiError) -> Self {
        let (error_code, error_message) = error.fields();
        ErrorResponse {
            error_code,
            error_message,
        }
    }
}

impl From<ErrorResponse> for ApiError {
    /// A code that no release has reads as UNKNOWN_SERVER_ERROR.
    fn from(response: ErrorResponse) -> Self {
        ApiError {
            code: ErrorCode::from_wire(response.error_code.unwrap_or(-1)),
            message: response.error_message.unwrap_or_default(),
        }
    }
}

impl From<DecodeError> for ApiError {
    /// A request that cannot be read: no client may retry it, which rules out
    /// CORRUPT_MESSAGE (wire.md §1.5).
    fn from(error: DecodeError) -> Self {
        ApiError::new(ErrorCode::UnsupportedVersion, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_wire_and_unknown_codes_become_minus_one() {
        let error = ApiError::new(ErrorCode::TableNotExist, "gone");
        assert_eq!(ApiError::from(ErrorResponse::from(error.clone())), error);
        let unknown = ErrorResponse {
            error_code: Some(9999),
            error_message: None,
        };
        assert_eq!(ApiError::from(unknown).code, ErrorCode::UnknownServerError);
    }

    #[test]
    fn an_undecodable_request_is_never_retried() {
        let error = ApiError::from(DecodeError::Missing { field: "A.b" });
        assert!(!error.code.is_retriable());
        assert!(error.message.contains("A.b"));
    }

    #[test]
    fn an_empty_text_is_left_out() {
        assert_eq!(
            ApiError::new(ErrorCode::Authorization, "").fields(),
            (Some(48), None)
        );
    }
}
