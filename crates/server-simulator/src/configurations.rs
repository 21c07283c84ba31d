//! Random configurations, valid and damaged, which are parsed and never started.

use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use config::registry::{self, Key, Scope, ValueKind};
use config::{
    Config, ConfigError, Effective, Surroundings, SystemProperties, ValueSource, effective, examine,
};
use testkit::{Random, altered};

const NAMES: &str = "the error of a configuration names its place";
const SAME: &str = "a configuration has one outcome";

/// Number of configurations for each seed.
const COUNT: usize = 50;
/// Path of the file that is parsed.
const FILE: &str = "/conf/zoo.cfg";

/// Parses random configurations. Returns the first violated invariant.
pub(crate) fn check(random: &mut Random) -> Option<(&'static str, String)> {
    (0..COUNT).find_map(|_| Written::draw(random).check())
}

/// Files and flags of a server.
#[derive(Clone)]
struct Written {
    file: Vec<u8>,
    flags: Vec<String>,
    dynamic: Option<Vec<u8>>,
    my_id: Vec<u8>,
}

impl Written {
    fn draw(random: &mut Random) -> Self {
        let keys: Vec<&'static Key> = registry::all().collect();
        let mut file = String::from("dataDir=/data\ntickTime=2000\n");
        let members = random.below(6);
        let is_outside = random.percent(30);
        let list = draw_members(members, random);
        if is_outside {
            file.push_str("dynamicConfigFile=/conf/dynamic\n");
        } else {
            file.push_str(&list);
        }
        file.push_str("initLimit=10\nsyncLimit=5\n");
        for _ in 0..random.below(12) {
            let key = random.pick(&keys).expect("a key");
            let _ = writeln!(file, "{}={}", name_of(key, random), value_of(key, random));
        }
        let mut flags = Vec::new();
        for _ in 0..random.below(4) {
            let key = random.pick(&keys).expect("a key");
            let prefix = random.pick(&["", "zookeeper."]).unwrap_or("");
            let name = name_of(key, random);
            flags.push(format!("{prefix}{name}={}", value_of(key, random)));
        }
        let mut drawn = Self {
            file: file.into_bytes(),
            flags,
            dynamic: is_outside.then(|| list.into_bytes()),
            my_id: (1 + random.below(members + 2)).to_string().into_bytes(),
        };
        if random.percent(20) {
            drawn.file = altered(&drawn.file, random);
        }
        if random.percent(10) {
            drawn.dynamic = drawn.dynamic.map(|file| altered(&file, random));
        }
        if random.percent(5) {
            drawn.my_id = altered(&drawn.my_id, random);
        }
        drawn
    }

    fn properties(&self) -> SystemProperties {
        let mut properties = SystemProperties::new();
        for flag in &self.flags {
            properties.define("the command line", flag);
        }
        properties
    }

    fn load(&self) -> Result<Config, ConfigError> {
        let config = Config::load(FILE.as_ref(), self.properties(), &mut self.clone())?;
        config.check_supported()?;
        Ok(config)
    }

    fn check(&self) -> Option<(&'static str, String)> {
        let loaded = self.load();
        let shown = || {
            let text = String::from_utf8_lossy(&self.file);
            format!("{text}{:?}", self.flags)
        };
        let examined = examine(FILE.as_ref(), self.properties(), &mut self.clone());
        if examined.is_accepted() != loaded.is_ok() {
            let findings = &examined.findings;
            return Some((
                SAME,
                format!("{loaded:?}, but {findings:?} in\n{}", shown()),
            ));
        }
        match loaded {
            Ok(config) => {
                // A secret of each process makes configurations unequal, but is not printed.
                let again = self.load().map(|again| format!("{again:?}"));
                if again.as_ref().ok() != Some(&format!("{config:?}")) {
                    let text = format!("{again:?} instead of {config:?} in\n{}", shown());
                    return Some((SAME, text));
                }
                if self.dynamic.is_some() {
                    return None;
                }
                let fault = self.check_effective();
                fault.map(|text| (SAME, format!("{text} in\n{}", shown())))
            }
            Err(error) => {
                let has_place = error.origin.is_some() || error.key.is_some();
                let text = error.to_string();
                let names_file = text.contains("/conf/") || text.contains("/data/");
                if (has_place || names_file) && !error.reason.is_empty() {
                    return None;
                }
                Some((NAMES, format!("{text} in\n{}", shown())))
            }
        }
    }

    /// Writes the effective values into a new file, which must have the same effective values.
    fn check_effective(&self) -> Option<String> {
        let before = match self.effective() {
            Ok(rows) => rows,
            Err(error) => return Some(format!("{error} after a successful load")),
        };
        let is_written = |row: &&Effective| {
            // A setting with several names may have the value of another name.
            let has_one_name = registry::find(&row.name).is_none_or(|key| {
                key.also.is_empty() && !matches!(key.scope, Scope::FileUnderProperty(_))
            });
            row.section.is_some() && row.place != ValueSource::Default && has_one_name
        };
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() && c != '\\');
        let is_copied = |row: &Effective| {
            let value = row.value.as_deref().unwrap_or_default();
            is_plain(&row.name) && is_plain(value) && value != registry::HIDDEN
        };
        if !before.iter().filter(is_written).all(is_copied) {
            return None;
        }
        let mut copy = Self {
            file: Vec::new(),
            flags: Vec::new(),
            ..self.clone()
        };
        for row in before.iter().filter(is_written) {
            let (name, value) = (&row.name, row.value.as_deref().unwrap_or_default());
            if let Some(property) = name.strip_prefix("-D") {
                copy.flags.push(format!("{property}={value}"));
                continue;
            }
            match registry::find(name).map(|key| key.scope) {
                Some(Scope::Property) => copy.flags.push(format!("{name}={value}")),
                _ => copy.file.extend(format!("{name}={value}\n").bytes()),
            }
        }
        let after = match copy.effective() {
            Ok(rows) => rows,
            Err(error) => return Some(format!("the copy is refused: {error}")),
        };
        let changed = before.iter().filter(is_written).find(|row| {
            let same = after.iter().find(|other| other.name == row.name);
            same.is_none_or(|same| same.value != row.value)
        });
        changed.map(|row| format!("{row:?} is different in the copy"))
    }

    fn effective(&self) -> Result<Vec<Effective>, ConfigError> {
        effective(FILE.as_ref(), self.properties(), &mut self.clone())
    }
}

impl Surroundings for Written {
    fn read(&mut self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        let found = match path.to_str() {
            Some(FILE) => Some(&self.file),
            Some("/conf/dynamic") => self.dynamic.as_ref(),
            Some("/data/myid") => Some(&self.my_id),
            _ => None,
        };
        found.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn resolve(&mut self, host: &str) -> io::Result<IpAddr> {
        let known = host.starts_with('h');
        known
            .then(|| IpAddr::from([127, 0, 0, 1]))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"))
    }
}

fn draw_members(members: usize, random: &mut Random) -> String {
    let mut list = String::new();
    for member in 1..=members {
        let role = random
            .pick(&["", "", ":participant", ":observer"])
            .unwrap_or("");
        let client = random.pick(&["", "", ";2181", ";h:2181"]).unwrap_or("");
        let _ = writeln!(list, "server.{member}=h{member}:2888:3888{role}{client}");
    }
    if random.percent(15) && members > 0 {
        let all: Vec<String> = (1..=members).map(|member| member.to_string()).collect();
        let _ = writeln!(list, "group.1={}", all.join(":"));
        let _ = writeln!(list, "weight.1={}", random.below(4));
    }
    list
}

fn name_of(key: &Key, random: &mut Random) -> String {
    let mut name = key.name.replace('*', "x");
    if random.percent(5) {
        name = String::from_utf8_lossy(&altered(name.as_bytes(), random)).into_owned();
    }
    name.replace(['\n', '\0'], "")
}

fn value_of(key: &Key, random: &mut Random) -> String {
    let number = random.range(-2, 70_000);
    let valid = match key.kind {
        ValueKind::Int | ValueKind::Long | ValueKind::Port => number.to_string(),
        ValueKind::Ratio => format!("0.{}", number.abs()),
        ValueKind::Flag => random.pick(&["true", "false"]).unwrap_or("").to_owned(),
        ValueKind::Word { special, other } => {
            random.pick(&[special, other]).unwrap_or("").to_owned()
        }
        ValueKind::Choice(words) => random.pick(words).unwrap_or("").to_owned(),
        ValueKind::Path => "/conf/dynamic".to_owned(),
        ValueKind::Host => "host".to_owned(),
        ValueKind::Member => "h9:2888:3888".to_owned(),
        ValueKind::Text | ValueKind::Secret | ValueKind::List | ValueKind::Class => {
            "a,b".to_owned()
        }
    };
    let odd = [
        "",
        "-1",
        "99999999999999999999",
        "0x10",
        "a:1:2;3",
        "\\u00",
        "é",
        " x ",
    ];
    if random.percent(15) {
        return random.pick(&odd).unwrap_or("").to_owned();
    }
    valid
}
