//! TLS in front of a server that does not speak it. The ClickHouse of the tests is its library, which has no
//! listener for HTTPS; what comes out of here is the real one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::ServerConfig;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

pub struct TlsProxy {
    address: SocketAddr,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsProxy {
    pub fn start(upstream: SocketAddr, config: Arc<ServerConfig>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let config = Arc::new(Mutex::new(config));
        let (stop, stopped) = oneshot::channel();
        let shown = Arc::clone(&config);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, upstream, &shown) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, config, stop: Some(stop), thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What new connections are shown from now on, as after a restart of a server.
    pub fn restart_with(&self, config: Arc<ServerConfig>) {
        *self.config.lock().unwrap() = config;
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn serve(
    listener: std::net::TcpListener,
    upstream: SocketAddr,
    config: &Mutex<Arc<ServerConfig>>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(&config.lock().unwrap()));
        tokio::spawn(async move {
            // A client that is refused, or goes away, is what the tests look at.
            let Ok(mut client) = acceptor.accept(client).await else { return };
            let Ok(mut server) = TcpStream::connect(upstream).await else { return };
            drop(copy_bidirectional(&mut client, &mut server).await);
        });
    }
}
