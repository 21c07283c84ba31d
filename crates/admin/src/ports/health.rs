//! Separate port for probes (`zoarium.health.port`), which answers regardless of the load on the
//! admin port.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::Config;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use metrics::role::RoleCell;
use transport::tls::Acceptor;

use crate::answer::Answer;
use crate::commands;
use crate::http::{
    self, Activity, Answers, BindError, Caller, PortSettings, PortTask, ResponseBody, respond,
};

/// Idle time after which a connection ends.
const IDLE: Duration = Duration::from_secs(10);

/// Handler of the requests of probes.
#[derive(Default)]
pub struct Health {
    /// Role of the server. It is set after the data has been loaded.
    role: OnceLock<Arc<RoleCell>>,
}

/// Port for probes.
pub type HealthTask = PortTask<Health>;

/// Listens on the port and answers requests if the port is configured.
///
/// # Errors
/// If the server cannot listen on the address.
pub async fn begin(config: &Config) -> Result<Option<HealthTask>, BindError> {
    let Some(port) = config.admin.health_port else {
        return Ok(None);
    };
    let settings = PortSettings {
        name: "the health port",
        host: config.admin.address.clone(),
        port,
        acceptor: Acceptor::plain(),
        idle: IDLE,
    };
    let address = format!("{}:{port}", settings.host);
    let task = http::listen(settings, Arc::new(Health::default())).await?;
    tracing::info!(address, "health port listens");
    Ok(Some(task))
}

impl Health {
    /// Provides the role of the server after the data has been loaded.
    pub fn serve(&self, role: Arc<RoleCell>) {
        // The role is set only once, at the start.
        let _ = self.role.set(role);
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
            commands::LIVE if is_read => Answer::status(StatusCode::OK),
            commands::READY if is_read => {
                let role = self.role.get().map(|role| role.get());
                commands::ready(role.as_deref())
            }
            commands::LIVE | commands::READY => Answer::status(StatusCode::METHOD_NOT_ALLOWED),
            _ => Answer::page(StatusCode::NOT_FOUND, path, "Not Found"),
        })
    }
}
