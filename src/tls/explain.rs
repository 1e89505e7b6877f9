//! What went wrong with TLS, in words that say whose certificate or setting it is.

use std::error::Error as StdError;
use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// One line for the log.
#[must_use]
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            format!("certificate of the server is not trusted: {}", of_certificate(why))
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server wants a certificate of the client".to_owned()
        }
        Error::AlertReceived(alert) if is_refusal(*alert) => {
            format!("the server does not trust the certificate of the client: {alert:?}")
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the other side does not speak TLS".to_owned()
        }
        other => format!("TLS: {other}"),
    }
}

/// Whether one side refused the certificate of the other one: nothing that was sent has been looked at. In
/// TLS 1.3 a client hears of it when it reads the answer (RFC 8446 section 4.4.2.4).
#[must_use]
pub fn is_of_certificate(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(_) => true,
        Error::AlertReceived(alert) => {
            *alert == AlertDescription::CertificateRequired || is_refusal(*alert)
        }
        _ => false,
    }
}

/// What of TLS is among the causes of an error, if anything.
#[must_use]
pub fn within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let own = error.downcast_ref::<Error>();
        if let Some(found) = own.or_else(|| error.downcast_ref().and_then(of_io)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The error of TLS that a stream has wrapped, or the connector around the stream.
#[must_use]
pub fn of_io(error: &io::Error) -> Option<&Error> {
    let wrapped = error.get_ref()?;
    wrapped.downcast_ref().or_else(|| wrapped.downcast_ref().and_then(of_io))
}

/// Alerts about the certificate that the other side was shown, RFC 8446 section 6.2.
fn is_refusal(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn of_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no authority that is trusted has signed it".to_owned(),
        // Authorities are found by their names.
        CertificateError::BadSignature => {
            "an authority that is trusted is named in it, and has not signed it".to_owned()
        }
        CertificateError::Expired => "it has expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it has expired, {} ago", days(*not_after, *time))
        }
        CertificateError::NotValidYet => "it is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is not valid yet, for {}; is the clock right?", days(*time, *not_before))
        }
        CertificateError::ApplicationVerificationFailure => {
            "it is not the one that is configured".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.join(", ").replace('"', "");
            format!("it is for {names}, not for {}", expected.to_str())
        }
        other => other.to_string(),
    }
}

fn days(from: UnixTime, to: UnixTime) -> String {
    let seconds = to.as_secs().saturating_sub(from.as_secs());
    if seconds < 86_400 { format!("{seconds} s") } else { format!("{} days", seconds / 86_400) }
}
