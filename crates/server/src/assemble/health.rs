//! A separate port for probes (`zoarium.health.port`), which answers regardless of the load on the
//! admin port.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::Config;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use monitoring::admin::{self, Answer};
use transport::tls::Acceptor;

use super::http::{self, Activity, Answers, Caller, Place, PortTask, ResponseBody, respond};
use crate::client::clients::Clients;
use crate::error::StartError;

/// Idle time after which a connection ends.
const IDLE: Duration = Duration::from_secs(10);

/// State that answers probes.
#[derive(Default)]
pub(crate) struct Health {
    /// State of the clients, set after the data is loaded.
    clients: OnceLock<Arc<Clients>>,
}

/// The port for probes.
pub(crate) type HealthTask = PortTask<Health>;

/// Listens and answers, if configured.
///
/// # Errors
/// If the server cannot listen on the address.
pub(crate) async fn begin(config: &Config) -> Result<Option<HealthTask>, StartError> {
    let Some(port) = config.admin.health_port else {
        return Ok(None);
    };
    let place = Place {
        of: "the health port",
        host: config.admin.address.clone(),
        port,
        acceptor: Acceptor::plain(),
        idle: IDLE,
    };
    let address = format!("{}:{port}", place.host);
    let listening = http::listen(place, Arc::new(Health::default())).await;
    let task = match listening {
        Ok(task) => task,
        Err(source) => return Err(StartError::BindHealth { address, source }),
    };
    tracing::info!(address, "health port listens");
    Ok(Some(task))
}

impl Health {
    /// Provides the state of the server, after the data is loaded.
    pub(crate) fn serve(&self, clients: Arc<Clients>) {
        // Set only once, by the start.
        let _ = self.clients.set(clients);
    }
}

impl Answers for Health {
    fn is_answered_always(&self, _path: &str) -> bool {
        true
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        _caller: Caller,
        _activity: Activity,
    ) -> Response<ResponseBody> {
        let path = request.uri().path();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        respond(match path {
            admin::LIVE if is_read => Answer::status(StatusCode::OK),
            admin::READY if is_read => admin::ready(
                self.clients
                    .get()
                    .map(|clients| clients.role.get())
                    .as_deref(),
            ),
            admin::LIVE | admin::READY => Answer::status(StatusCode::METHOD_NOT_ALLOWED),
            _ => Answer::page(StatusCode::NOT_FOUND, path, "Not Found"),
        })
    }
}
