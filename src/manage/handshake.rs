//! The beginning of a connection with TLS, and the certificate that it is shown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use crate::tls::{ReloadError, ServerTls};

/// From the first byte to the last one of the handshake: two round trips, some hundred milliseconds on a bad
/// line.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(2);

/// TLS on a connection, unless the other side does not speak it, or too slowly.
pub(super) async fn shake_hands(
    stream: TcpStream,
    tls: &Arc<ServerTls>,
) -> Option<TlsStream<TcpStream>> {
    look(tls, Instant::now()).await;
    let accepting = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, accepting).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            debug!(%error, "TLS handshake failed.");
            None
        }
        Err(_) => {
            debug!("TLS handshake took too long.");
            None
        }
    }
}

/// Takes a renewed certificate from its files, once in a while. On a thread of its own: a disk that hangs must
/// not keep others waiting.
async fn look(tls: &Arc<ServerTls>, now: Instant) {
    if !tls.is_look_due(now) {
        return;
    }
    let files = Arc::clone(tls);
    let looking = tokio::task::spawn_blocking(move || reload(&files));
    // What it found was logged, and who shakes hands now need not wait long for a disk.
    drop(tokio::time::timeout(HANDSHAKE_TIME_MAX, looking).await);
}

/// Reads the files again, and says what came of it.
pub(super) fn reload(tls: &ServerTls) -> Result<bool, ReloadError> {
    let outcome = tls.reload();
    match &outcome {
        Ok(true) => info!("Certificate of the management server was renewed."),
        Ok(false) => {}
        Err(error) => {
            warn!(%error, "Certificate of the management server cannot be read again, the one of before stays.");
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::generate_simple_self_signed;

    use super::*;
    use crate::tls::{Identity, LOOK_INTERVAL, certificates, private_key};

    fn renew(folder: &Path) {
        let signed = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), signed.cert.pem()).unwrap();
        std::fs::write(folder.join("key.pem"), signed.signing_key.serialize_pem()).unwrap();
    }

    #[tokio::test]
    async fn changed_files_are_taken_a_minute_after_the_last_look() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        renew(folder.path());
        let chain = certificates(&certificate).unwrap();
        let identity = Identity { chain, key: private_key(&key).unwrap() };
        let tls = Arc::new(ServerTls::new(certificate, key, identity).unwrap());
        let (first, start) = (tls.certificate(), Instant::now());
        renew(folder.path());
        look(&tls, start + LOOK_INTERVAL / 2).await;
        assert_eq!(tls.certificate(), first);
        look(&tls, start + LOOK_INTERVAL).await;
        let second = tls.certificate();
        assert_ne!(second, first);
        renew(folder.path());
        look(&tls, start + LOOK_INTERVAL + LOOK_INTERVAL / 2).await;
        assert_eq!(tls.certificate(), second);
        std::fs::write(folder.path().join("cert.pem"), "half").unwrap();
        look(&tls, start + 2 * LOOK_INTERVAL).await;
        assert_eq!(tls.certificate(), second);
    }
}
