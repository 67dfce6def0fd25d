//! Serves an in-memory API server on loopback and writes an administrator's kubeconfig: `serve PORT KUBECONFIG`.

use api::{Clock, MicroTime, Rng};
use steersman_apiserver::pki::{Pki, Validity};
use steersman_apiserver::private_file;
use steersman_apiserver::serve::{Spawner, default_limits, serve};
use steersman_apiserver::{ApiServer, Options, Storage};

#[allow(
    clippy::disallowed_methods,
    reason = "an example has no runtime that owns time and tasks"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().ok_or("which port?")?.parse()?;
    let kubeconfig = arguments.next().ok_or("where to write the kubeconfig?")?;
    let clock = Clock::new(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        MicroTime::from_unix_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    });
    let seed = u64::try_from(clock.now().unix_micros())?;
    let now = clock.now().time();
    let mut options = Options::in_memory(clock.clone(), Rng::from_seed(seed));
    if let Some(dir) = arguments.next() {
        options.storage = Storage::Dir(dir.into());
    }
    let server = ApiServer::open(options)?;
    let pki = Pki::generate(&[], Validity::new(now, now, 1))?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    private_file::write(kubeconfig.as_ref(), pki.kubeconfig(&url).as_bytes())?;
    let spawner = Spawner::new(|future| drop(tokio::spawn(future)));
    let limits = default_limits();
    let tls = pki.tls()?;
    serve(server, listener, tls, spawner, limits, async {
        drop(tokio::signal::ctrl_c().await)
    })
    .await;
    Ok(())
}
