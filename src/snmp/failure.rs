//! Why a walk brought nothing.

use std::time::Duration;

use async_snmp::{Error, ErrorKind, ErrorStatus, WalkAbortReason};

use crate::config::{show_bytes, show_duration};

use super::walk::{ROWS_MAX, TEXT_BYTES_MAX, WALK_TIME_MAX};

/// The label of `tidegate_snmp_walks_total`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The table is the agent's.
    Ok,
    /// No answer.
    Timeout,
    /// The agent does not take the user or a password, or we do not take its answer.
    Authentication,
    /// What the agent answers is not what was asked for.
    WrongAnswer,
    /// Rows, time or memory.
    Limit,
    /// This host could not send.
    Network,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] = [
        Self::Ok,
        Self::Timeout,
        Self::Authentication,
        Self::WrongAnswer,
        Self::Limit,
        Self::Network,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Timeout => "timeout",
            Self::Authentication => "authentication",
            Self::WrongAnswer => "wrong_answer",
            Self::Limit => "limit",
            Self::Network => "network",
        }
    }
}

/// A walk that failed. Its text is shown, and names no secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Failure {
    /// A community that an agent of v2c does not know is not answered either.
    #[error(
        "no answer: it is away, does not do SNMP, or does not take this host or its credentials"
    )]
    Timeout,
    #[error("the agent does not take user, password or protocol: {0}")]
    Refused(String),
    #[error("the answer has a wrong signature, or cannot be decrypted")]
    Forged,
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    #[error("not done within {}", show_duration(WALK_TIME_MAX))]
    TooSlow,
    #[error("has more than {ROWS_MAX} interfaces, the others have no names")]
    TooMany,
    #[error("its names and descriptions have more than {}", show_bytes(TEXT_BYTES_MAX as u64))]
    TooLarge,
    #[error("there are too many interfaces of all exporters, these have no names")]
    NoRoom,
    #[error("cannot send: {0}")]
    Network(String),
}

impl Failure {
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Timeout => Outcome::Timeout,
            Self::Refused(_) | Self::Forged => Outcome::Authentication,
            Self::WrongAnswer(_) => Outcome::WrongAnswer,
            Self::TooSlow | Self::TooMany | Self::TooLarge | Self::NoRoom => Outcome::Limit,
            Self::Network(_) => Outcome::Network,
        }
    }

    pub(super) fn another_type() -> Self {
        Self::WrongAnswer("a value is of another type".to_owned())
    }

    /// What the library says, in our words: its texts may hold whole answers.
    pub(super) fn of(error: &Error) -> Self {
        match error.exchange_source() {
            Error::Timeout { .. } => Self::Timeout,
            Error::Auth { .. } => Self::Forged,
            Error::Report { status, .. } => Self::Refused(status.to_string()),
            Error::WalkAborted { reason: WalkAbortReason::ResultLimitExceeded { .. }, .. } => {
                Self::TooMany
            }
            Error::WalkAborted { .. } => Self::WrongAnswer("object identifiers do not grow".into()),
            Error::Snmp {
                status: status @ (ErrorStatus::NoAccess | ErrorStatus::AuthorizationError),
                ..
            } => Self::Refused(status.to_string()),
            Error::Snmp { status, .. } => Self::WrongAnswer(format!("error {status}")),
            Error::Network { source, .. } => Self::Network(source.to_string()),
            other => match other.kind() {
                ErrorKind::Decode | ErrorKind::MalformedResponse | ErrorKind::ResponseShape => {
                    Self::WrongAnswer("it is not well-formed".into())
                }
                kind => Self::Network(kind.to_string()),
            },
        }
    }
}

/// How long after so many failures in a row an exporter is asked again. Who is away for long is asked little.
pub(super) fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(PAUSE_MAX.as_secs().ilog2());
    PAUSE_MAX.min(PAUSE_MIN * (1 << doublings))
}

/// A router that starts again answers within minutes.
const PAUSE_MIN: Duration = Duration::from_secs(60);
const PAUSE_MAX: Duration = Duration::from_secs(30 * 60);
