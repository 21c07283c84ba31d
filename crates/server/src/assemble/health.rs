//! A port of its own for probes (`zoarium.health.port`): whatever comes to the admin port, a probe is answered.

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

/// Silence after which a connection ends.
const IDLE: Duration = Duration::from_secs(10);

/// What probes ask.
#[derive(Default)]
pub(crate) struct Health {
    /// Set once the data is loaded.
    clients: OnceLock<Arc<Clients>>,
}

/// The probes at their port.
pub(crate) type HealthTask = PortTask<Health>;

/// Listens and answers, if the configuration wants that.
///
/// # Errors
/// If the address cannot be listened on.
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
    tracing::info!(address, "probes are answered");
    Ok(Some(task))
}

impl Health {
    /// The data is loaded: from here on somebody may be served.
    pub(crate) fn serve(&self, clients: Arc<Clients>) {
        // Set once, by the start.
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
