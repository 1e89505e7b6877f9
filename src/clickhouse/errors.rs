//! What an error of ClickHouse means for a batch.
//!
//! Classified by the server's code, never by the HTTP status: 500 stands for a full disk, a wrong
//! constraint and a missing right alike.

use std::time::Duration;

use crate::config::ErrorsConfig;
use crate::tls;

use super::codes::{Code, MAY_BE_STORED, TOO_MANY_PARTS};

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
    /// The collector stops and waits no longer; the request may still be worked on.
    #[error("no answer before the collector stops")]
    Abandoned,
    /// The server answers and cannot be used as it is set up; another one may.
    #[error("{0}")]
    Unusable(String),
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
    /// The same bytes will be refused again, for what is in them: other rows may be taken.
    Data,
    /// No row will be taken before an operator changes something.
    Configuration,
    /// Nobody has said yet what the code means: the rows are taken to be refused for good.
    Unknown,
}

/// A proxy in between has answered.
const NO_CODE: u32 = 0;

/// What ClickHouse says before the name of a view.
const PUSHING_TO_VIEW: &str = ": while pushing to view ";

/// Where ClickHouse begins to cite the row that it refuses.
pub const CITED_VALUES: &str = ". Column values:";

/// The batch has too many partitions, whatever the number of parts.
const TOO_MANY_PARTITIONS: &str = "Too many partitions";

impl Class {
    /// The column `errorClass` of dead letters, and the metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Retryable | Self::Outage | Self::BrokenView => "retryable",
            Self::Data | Self::Configuration => "permanent",
            Self::Unknown => "unknown",
        }
    }
}

impl ClickHouseError {
    /// What to do with the batch.
    #[must_use]
    pub fn class(&self, moved: &ErrorsConfig) -> Class {
        if self.broken_view().is_some() { Class::BrokenView } else { self.class_of_code(moved) }
    }

    /// The same, wherever in the insert it happened. What passes in a view passes as elsewhere.
    #[must_use]
    pub fn class_of_code(&self, moved: &ErrorsConfig) -> Class {
        let (code, message) = match self {
            Self::Refused { code, message } if *code != NO_CODE => (*code, message),
            _ => return Class::Outage,
        };
        if moved.retryable.contains(&code) {
            return Class::Retryable;
        }
        if moved.permanent.contains(&code) {
            return Class::Data;
        }
        if code == TOO_MANY_PARTS {
            let is_of_batch = message.contains(TOO_MANY_PARTITIONS);
            return if is_of_batch { Class::Data } else { Class::Retryable };
        }
        Code::find(code).map_or(Class::Unknown, |known| known.class)
    }

    /// Whether the insert may have reached the table all the same.
    #[must_use]
    pub fn may_be_stored(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code == NO_CODE || MAY_BE_STORED.contains(code),
            Self::Unreachable(_) | Self::Unusable(_) => false,
            Self::NoAnswer(_) | Self::TimedOut(_) | Self::Abandoned => true,
        }
    }

    /// The materialized view that failed, as ClickHouse names it.
    #[must_use]
    pub fn broken_view(&self) -> Option<&str> {
        let Self::Refused { message, .. } = self else { return None };
        // The values of a row could have the same words.
        let own = message.split(CITED_VALUES).next()?;
        let (_, name) = own.split_once(PUSHING_TO_VIEW)?;
        [". (", ": "].iter().filter_map(|end| name.split(end).next()).min_by_key(|name| name.len())
    }

    /// Whether another server may do better: this one has not answered in time, or cannot be used. What
    /// ClickHouse answers is about the batch or the cluster.
    #[must_use]
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code == NO_CODE,
            Self::Abandoned => false,
            _ => true,
        }
    }

    /// The server's code and its name, as far as they are known.
    #[must_use]
    pub fn code(&self) -> (u32, &str) {
        let Self::Refused { code, message } = self else { return (NO_CODE, "") };
        (*code, name_of(message))
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
                let of_tls = tls::within(&*cause);
                let text = of_tls.map_or_else(|| innermost(&*cause), tls::explain);
                let is_unsent = is_connect || of_tls.is_some_and(tls::is_of_certificate);
                if is_unsent { Self::Unreachable(text) } else { Self::NoAnswer(text) }
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

/// The name in `Code: 469. DB::Exception: ... (VIOLATED_CONSTRAINT) (version 26.7.2.1)`.
fn name_of(message: &str) -> &str {
    let is_name = |name: &&str| {
        let is_letter =
            |letter: u8| letter.is_ascii_uppercase() || matches!(letter, b'_' | b'0'..=b'9');
        !name.is_empty() && name.bytes().all(is_letter)
    };
    message.rsplit('(').filter_map(|part| part.split(')').next()).find(is_name).unwrap_or_default()
}

/// The cause at the end of the chain is the one that an operator can act on.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let cause = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    if cause.is_some_and(|cause| cause.is::<tokio::time::error::Elapsed>()) {
        return "none within clickhouse.connect-timeout".to_owned();
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clickhouse::codes::CODES;

    fn refused(code: u32, message: &str) -> Class {
        class_with(code, message, &ErrorsConfig::default())
    }

    fn class_with(code: u32, message: &str, moved: &ErrorsConfig) -> Class {
        ClickHouseError::Refused { code, message: message.to_owned() }.class(moved)
    }

    #[test]
    fn too_many_parts_is_retried_and_too_many_partitions_is_not() {
        assert_eq!(
            refused(252, "Code: 252. DB::Exception: Too many parts (300)"),
            Class::Retryable
        );
        let partitions = "Code: 252. DB::Exception: Too many partitions for single INSERT block";
        assert_eq!(refused(252, partitions), Class::Data);
    }

    #[test]
    fn a_failing_view_is_not_a_refusal_of_the_batch() {
        let message = "Code: 395. DB::Exception: x: while pushing to view db.v. (FUNCTION_THROW)";
        assert_eq!(refused(395, message), Class::BrokenView);
        let view = |message: &str| {
            let error = ClickHouseError::Refused { code: 395, message: message.to_owned() };
            error.broken_view().map(ToOwned::to_owned)
        };
        assert_eq!(view(message).as_deref(), Some("db.v"));
        let chained = "x: while pushing to view `a-b`.`v w`: while pushing to view b.c. (X)";
        assert_eq!(view(chained).as_deref(), Some("`a-b`.`v w`"));
        let cited = "x at row 3. Column values: s = ': while pushing to view q. (X)'. (X)";
        assert_eq!((view(cited), refused(469, cited)), (None, Class::Data));
    }

    #[test]
    fn a_code_that_nobody_classified_is_unknown_until_the_configuration_says() {
        let moved = ErrorsConfig { retryable: vec![469, 9_999], permanent: vec![241, 9_998] };
        let of = |code| (refused(code, ""), class_with(code, "", &moved));
        assert_eq!(of(9_999), (Class::Unknown, Class::Retryable));
        assert_eq!(of(9_998), (Class::Unknown, Class::Data));
        assert_eq!(of(469), (Class::Data, Class::Retryable));
        assert_eq!(of(241), (Class::Retryable, Class::Data));
        assert_eq!(of(516), (Class::Configuration, Class::Configuration));
    }

    #[test]
    fn code_and_name_are_read_from_the_text_and_0_stands_for_none() {
        let text = "Code: 241. DB::Exception: Memory (total) limit exceeded. (MEMORY_LIMIT_EXCEEDED) \
                    (version 26.7.2.1 (official build))";
        let error = ClickHouseError::from(clickhouse::error::Error::BadResponse(text.into()));
        assert_eq!(error.code(), (241, "MEMORY_LIMIT_EXCEEDED"));
        assert_eq!(error.class(&ErrorsConfig::default()), Class::Retryable);
        assert_eq!(refused(code_of("502 Bad Gateway"), "502 Bad Gateway"), Class::Outage);
        assert_eq!(name_of("502 Bad Gateway"), "");
    }

    #[test]
    fn codes_are_in_order_and_given_once() {
        assert!(CODES.is_sorted_by(|a, b| a.number < b.number));
    }
}
