//! Discovery of services by name, in Curator's JSON format.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Client, Create};
use serde_json::Value;

use crate::error::Result;
use crate::node::{NodeLife, PersistentNode};
use crate::session::{check_path, child, children_of, data_of};

/// Directory of service instances: `<base>/<name>/<id>`. The znode of a dynamic instance exists
/// while the process of the instance runs.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::{Instance, ServiceDiscovery};
///
/// let services = ServiceDiscovery::new(&client, "/services")?;
/// let instance = Instance::new("print", "host-7").at("10.0.0.7", 6310);
/// let registered = services.register(&instance)?;
/// registered.is_there().await?;
/// let found = services.instances("print").await?;
/// assert_eq!(found[0].address.as_deref(), Some("10.0.0.7"));
/// assert_eq!(found[0].port, Some(6310));
/// registered.close().await;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: ServiceDiscoveryImpl, JsonInstanceSerializer, ServiceInstance.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct ServiceDiscovery {
    pub(crate) client: Client,
    base: String,
}

/// Lifetime of an instance's znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceType {
    /// The znode disappears when the process of the instance ends.
    #[default]
    Dynamic,
    /// The znode remains until the instance is unregistered, even after the process has ended.
    Static,
}

/// Instance of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Name of the service.
    pub name: String,
    /// Id, unique among the instances of the service.
    pub id: String,
    /// Host name or IP address.
    pub address: Option<String>,
    /// Port without TLS.
    pub port: Option<u16>,
    /// Port with TLS.
    pub ssl_port: Option<u16>,
    /// Arbitrary description of the instance. Java's payloads also contain the class (`@class`).
    pub payload: Value,
    /// Lifetime of the znode.
    pub service_type: ServiceType,
    /// Time of the registration by the clock of the instance. The JSON contains the time in ms.
    pub registered: SystemTime,
    /// Format of the instance's URIs, as Curator writes it.
    pub uri_spec: Value,
}

impl Instance {
    /// Creates an instance with only a name and an id.
    pub fn new(name: &str, id: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: id.to_owned(),
            address: None,
            port: None,
            ssl_port: None,
            payload: Value::Null,
            service_type: ServiceType::Dynamic,
            registered: UNIX_EPOCH,
            uri_spec: Value::Null,
        }
    }

    /// Sets the address and the port.
    #[must_use]
    pub fn at(mut self, address: &str, port: u16) -> Self {
        self.address = Some(address.to_owned());
        self.port = Some(port);
        self
    }

    /// Sets the description of the instance.
    #[must_use]
    pub fn with_payload(mut self, payload: Value) -> Self {
        self.payload = payload;
        self
    }

    /// Sets the lifetime of the znode.
    #[must_use]
    pub fn with_type(mut self, service_type: ServiceType) -> Self {
        self.service_type = service_type;
        self
    }

    /// Encodes the instance as JSON, with Curator's keys in Curator's order. Absent values are
    /// null.
    pub fn to_json(&self) -> String {
        let number = |port: Option<u16>| port.map_or(Value::Null, Value::from);
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::from);
        let service_type = match self.service_type {
            ServiceType::Dynamic => "DYNAMIC",
            ServiceType::Static => "STATIC",
        };
        let fields = [
            ("name", self.name.clone().into()),
            ("id", self.id.clone().into()),
            ("address", text(&self.address)),
            ("port", number(self.port)),
            ("sslPort", number(self.ssl_port)),
            ("payload", self.payload.clone()),
            ("registrationTimeUTC", ms_since_1970(self.registered).into()),
            ("serviceType", service_type.into()),
            ("uriSpec", self.uri_spec.clone()),
        ];
        let fields = fields.map(|(key, value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", fields.join(","))
    }

    /// Decodes an instance that Curator or this crate has encoded. Ignores unknown keys.
    ///
    /// # Errors
    /// If the JSON is not an instance. The message describes the error.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let needed = |key: &str| text(key).ok_or_else(|| format!("{key:?} is not text"));
        let port = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(port) => {
                let number = port.as_u64().and_then(|port| u16::try_from(port).ok());
                number
                    .map(Some)
                    .ok_or_else(|| format!("{key:?} is not a port number: {port}"))
            }
        };
        let other = |key: &str| value.get(key).cloned().unwrap_or_default();
        Ok(Self {
            name: needed("name")?,
            id: needed("id")?,
            address: text("address"),
            port: port("port")?,
            ssl_port: port("sslPort")?,
            payload: other("payload"),
            service_type: match text("serviceType").as_deref() {
                Some("STATIC" | "PERMANENT") => ServiceType::Static,
                _ => ServiceType::Dynamic,
            },
            registered: time(other("registrationTimeUTC").as_i64().unwrap_or_default()),
            uri_spec: other("uriSpec"),
        })
    }
}

/// Returns a time in ms since 1970, which is negative for an earlier time.
fn ms_since_1970(time: SystemTime) -> i64 {
    let (since, sign) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since, 1),
        Err(error) => (error.duration(), -1),
    };
    sign * i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time of a number of ms since 1970, or 1970 if the system cannot represent the time.
fn time(ms_since_1970: i64) -> SystemTime {
    let since = Duration::from_millis(ms_since_1970.unsigned_abs());
    let time = match ms_since_1970 {
        0.. => UNIX_EPOCH.checked_add(since),
        _ => UNIX_EPOCH.checked_sub(since),
    };
    time.unwrap_or(UNIX_EPOCH)
}

impl ServiceDiscovery {
    /// Creates a handle for the services below `base`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        check_path(base)?;
        Ok(Self {
            client: client.clone(),
            base: base.to_owned(),
        })
    }

    /// Returns the directory of a service.
    pub(crate) fn directory(&self, name: &str) -> Result<String> {
        child(&self.base, name)
    }

    /// Registers an instance, in this and all later sessions, until the returned node is closed or
    /// dropped. A background task does the work, so the call requires a tokio runtime.
    ///
    /// If another session has registered a dynamic instance with the same id, the registration of a
    /// dynamic instance waits until that session ends.
    ///
    /// # Errors
    /// If the name or the id is invalid.
    pub fn register(&self, instance: &Instance) -> Result<PersistentNode> {
        let path = child(&self.directory(&instance.name)?, &instance.id)?;
        let (kind, life) = match instance.service_type {
            ServiceType::Dynamic => (Create::ephemeral(), NodeLife::Session),
            ServiceType::Static => (Create::persistent(), NodeLife::Handle),
        };
        PersistentNode::start_as(&self.client, &path, instance.to_json().into(), kind, life)
    }

    /// Returns the names of the services in order, including services without instances.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn names(&self) -> Result<Vec<String>> {
        children_of(&self.client, &self.base).await
    }

    /// Returns the instances of a service, sorted by id. Skips instances that cannot be decoded,
    /// with a warning.
    ///
    /// # Errors
    /// If the name is invalid, or a server refuses the read.
    pub async fn instances(&self, name: &str) -> Result<Vec<Instance>> {
        let directory = self.directory(name)?;
        let mut instances = Vec::new();
        for id in children_of(&self.client, &directory).await? {
            let path = format!("{directory}/{id}");
            let data = data_of(&self.client, &path).await?;
            instances.extend(data.and_then(|data| readable(&path, &data)));
        }
        Ok(instances)
    }
}

/// Decodes the data of an instance's znode. If this is impossible, logs a warning and returns
/// `None`.
pub(crate) fn readable(path: &str, data: &[u8]) -> Option<Instance> {
    let read = Instance::from_json(data).inspect_err(|reason| {
        tracing::warn!(
            path,
            reason,
            "ignoring a znode that does not describe a service instance"
        );
    });
    read.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_equals_curators() {
        let instance = Instance::new("print", "a").at("10.0.0.7", 6310);
        let json = instance.to_json();
        assert_eq!(
            json,
            "{\"name\":\"print\",\"id\":\"a\",\"address\":\"10.0.0.7\",\"port\":6310,\
             \"sslPort\":null,\"payload\":null,\"registrationTimeUTC\":0,\
             \"serviceType\":\"DYNAMIC\",\"uriSpec\":null}"
        );
        assert_eq!(Instance::from_json(json.as_bytes()).unwrap(), instance);
        let minute = Duration::from_secs(60);
        for registered in [UNIX_EPOCH + minute, UNIX_EPOCH - minute] {
            let timed = Instance {
                registered,
                ..instance.clone()
            };
            let read = Instance::from_json(timed.to_json().as_bytes());
            assert_eq!(read.unwrap(), timed);
        }
        let fixed = instance.clone().with_type(ServiceType::Static).to_json();
        assert_eq!(fixed, json.replace("DYNAMIC", "STATIC"));
        let read = Instance::from_json(fixed.as_bytes()).unwrap();
        assert_eq!(read.service_type, ServiceType::Static);
        let payload = serde_json::json!({"@class": "a.B", "n": 1});
        let instance = instance.with_payload(payload);
        let json = instance
            .to_json()
            .replace("\"port\"", "\"new\":[1],\"port\"");
        assert_eq!(Instance::from_json(json.as_bytes()).unwrap(), instance);
    }

    #[test]
    fn invalid_instances_are_refused_with_a_reason() {
        for (json, reason) in [
            ("", "EOF"),
            ("{}", "\"name\" is not text"),
            ("{\"name\":\"a\"}", "\"id\" is not text"),
            (
                "{\"name\":\"a\",\"id\":\"b\",\"port\":70000}",
                "\"port\" is not a port number: 70000",
            ),
        ] {
            let error = Instance::from_json(json.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
