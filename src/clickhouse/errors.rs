//! What an error of ClickHouse means for a batch.
//!
//! Classified by the server's code, never by the HTTP status: 500 stands for a full disk, a wrong
//! constraint and a missing right alike.

use std::time::Duration;

/// Why a request to ClickHouse failed.
#[derive(Debug, thiserror::Error)]
pub enum ClickHouseError {
    /// ClickHouse answered with an error.
    #[error("ClickHouse refused with code {code}: {message}")]
    Refused {
        /// The server's error code; 0 when the answer has none: it is not ClickHouse's own then.
        code: u32,
        /// The first line of the answer.
        message: String,
    },
    /// The request did not arrive.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The request may have arrived, and an insert may have been stored.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// Nothing came within the response timeout; the request may still be worked on.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

/// What to do with a batch after an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// Send the same bytes again, a limited number of times: ClickHouse answered, and may accept later.
    Retryable,
    /// Send the same bytes again until there is an answer.
    Outage,
    /// The table has the batch, and a materialized view failed on it: send the same bytes again and leave
    /// failing views out, which completes the table and the other views.
    BrokenView,
    /// The same bytes will be refused again.
    Permanent,
}

/// Codes after which the same insert may succeed, with the name that ClickHouse gives them.
const RETRYABLE: [(u32, &str); 26] = [
    (159, "TIMEOUT_EXCEEDED"),
    (198, "DNS_ERROR"),
    (201, "QUOTA_EXCEEDED"),
    (202, "TOO_MANY_SIMULTANEOUS_QUERIES"),
    (203, "NO_FREE_CONNECTION"),
    (209, "SOCKET_TIMEOUT"),
    (210, "NETWORK_ERROR"),
    (236, "ABORTED"),
    (241, "MEMORY_LIMIT_EXCEEDED"),
    (242, "TABLE_IS_READ_ONLY"),
    (243, "NOT_ENOUGH_SPACE"),
    (244, "UNEXPECTED_ZOOKEEPER_ERROR"),
    (254, "NO_ACTIVE_REPLICAS"),
    (265, "NO_AVAILABLE_REPLICA"),
    (279, "ALL_CONNECTION_TRIES_FAILED"),
    (285, "TOO_FEW_LIVE_REPLICAS"),
    (286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE"),
    (289, "REPLICA_IS_NOT_IN_QUORUM"),
    (290, "LIMIT_EXCEEDED"),
    (297, "SHARD_HAS_NO_CONNECTIONS"),
    (364, "RECEIVED_ERROR_TOO_MANY_REQUESTS"),
    (384, "PART_IS_TEMPORARILY_LOCKED"),
    (394, "QUERY_WAS_CANCELLED"),
    (425, "SYSTEM_ERROR"),
    (999, "KEEPER_EXCEPTION"),
    (1000, "POCO_EXCEPTION"),
];

/// A proxy in between has answered.
const NO_CODE: u32 = 0;

/// `TOO_MANY_PARTS`: merges will catch up, unless the batch itself has too many partitions.
const TOO_MANY_PARTS: u32 = 252;

impl ClickHouseError {
    /// What to do with the batch.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable(_) | Self::NoAnswer(_) | Self::TimedOut(_) => Class::Outage,
            Self::Refused { code: NO_CODE, .. } => Class::Outage,
            Self::Refused { message, .. } if message.contains("while pushing to view") => {
                Class::BrokenView
            }
            Self::Refused { code: TOO_MANY_PARTS, message }
                if message.contains("Too many parts") =>
            {
                Class::Retryable
            }
            Self::Refused { code, .. } if RETRYABLE.iter().any(|(known, _)| known == code) => {
                Class::Retryable
            }
            Self::Refused { .. } => Class::Permanent,
        }
    }
}

impl From<clickhouse::error::Error> for ClickHouseError {
    fn from(error: clickhouse::error::Error) -> Self {
        match error {
            clickhouse::error::Error::BadResponse(body) => {
                let message = body.lines().next().unwrap_or_default().trim().to_owned();
                Self::Refused { code: code_of(&message), message }
            }
            clickhouse::error::Error::Network(cause) => {
                let is_connect = cause
                    .downcast_ref::<hyper_util::client::legacy::Error>()
                    .is_some_and(hyper_util::client::legacy::Error::is_connect);
                let text = innermost(&*cause);
                if is_connect { Self::Unreachable(text) } else { Self::NoAnswer(text) }
            }
            other => Self::NoAnswer(other.to_string()),
        }
    }
}

/// The code of `Code: 469. DB::Exception: ...`.
fn code_of(message: &str) -> u32 {
    let after = message.strip_prefix("Code: ").unwrap_or_default();
    after.split('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(NO_CODE)
}

/// The cause at the end of the chain is the one that an operator can act on.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u32, message: &str) -> Class {
        ClickHouseError::Refused { code, message: message.to_owned() }.class()
    }

    #[test]
    fn too_many_parts_is_retried_and_too_many_partitions_is_not() {
        assert_eq!(
            refused(252, "Code: 252. DB::Exception: Too many parts (300)"),
            Class::Retryable
        );
        let partitions = "Code: 252. DB::Exception: Too many partitions for single INSERT block";
        assert_eq!(refused(252, partitions), Class::Permanent);
    }

    #[test]
    fn a_failing_view_is_not_a_refusal_of_the_batch() {
        let message = "Code: 395. DB::Exception: x: while pushing to view db.v. (FUNCTION_THROW)";
        assert_eq!(refused(395, message), Class::BrokenView);
    }

    #[test]
    fn the_code_is_read_from_the_text_and_0_stands_for_none() {
        let error =
            clickhouse::error::Error::BadResponse("Code: 241. DB::Exception: Memory".into());
        assert_eq!(ClickHouseError::from(error).class(), Class::Retryable);
        assert_eq!(refused(code_of("502 Bad Gateway"), "502 Bad Gateway"), Class::Outage);
        assert_eq!(refused(469, "Code: 469. DB::Exception: Constraint"), Class::Permanent);
    }
}
