//! A run as one self-contained HTML file: its options, the findings and the calls around them, and
//! latency and throughput with a band for every fault.

mod gather;
mod plot;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use gather::{Bucket, Gathered, gather};

use crate::edn;
use crate::history::{Event, Process};
use crate::verdict::Finding;

/// The history in a run's directory.
const HISTORY: &str = "history.jsonl";
/// The options of the run, a JSON object.
const RUN: &str = "run.json";
/// The report.
const REPORT: &str = "report.html";
/// The history in Jepsen's format.
const EDN: &str = "history.edn";
/// Maximum number of findings that are shown with their events.
const FINDINGS_SHOWN: usize = 20;
/// Maximum length of a shown value, in characters.
const VALUE_CHARS_MAX: usize = 160;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2em auto;\
padding:0 1em;color:#222;background:#fff}table{border-collapse:collapse;font-size:13px}\
td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}\
svg{width:100%;margin:.5em 0}svg text{font-size:10px;fill:#555}svg text.on{fill:#111}\
polyline{fill:none;stroke-width:1.5}polyline.ok{stroke:#1a7f37}polyline.fail{stroke:#bf8700}\
polyline.info{stroke:#cf222e}polyline.mid{stroke:#0969da}rect.ok{fill:#b4e4c0}\
rect.fail{fill:#f6dfa4}rect.info{fill:#f5b5b5}rect.fault{fill:#8250df;opacity:.13}\
.valid{color:#1a7f37}.invalid{color:#cf222e}.unknown{color:#9a6700}code{font-size:13px}\
figure{margin:0;overflow:hidden}";

/// Writes the report of a run's directory and its history in Jepsen's format. Returns the path of
/// the report.
///
/// Without a run.json, the report contains only the data of the history.
///
/// # Errors
/// If the history cannot be read, or a file cannot be written.
pub fn write(dir: &Path) -> io::Result<PathBuf> {
    let run = load(&dir.join(RUN))?;
    let findings = findings(&run);
    let shown = findings.iter().take(FINDINGS_SHOWN);
    let wanted: BTreeSet<u64> = shown.flat_map(|finding| finding.events.clone()).collect();
    let gathered = gather(&dir.join(HISTORY), &wanted)?;
    edn::convert(&dir.join(HISTORY), &dir.join(EDN))?;
    let path = dir.join(REPORT);
    std::fs::write(&path, html(&run, &findings, &gathered))?;
    Ok(path)
}

/// Returns the object in the file, which is empty if the file does not exist.
fn load(path: &Path) -> io::Result<Map<String, Value>> {
    match std::fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| {
            let text = format!("{RUN} is not a JSON object: {error}");
            io::Error::new(io::ErrorKind::InvalidData, text)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(error),
    }
}

fn findings(run: &Map<String, Value>) -> Vec<Finding> {
    let list = run
        .get("verdict")
        .and_then(|verdict| verdict.get("findings"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|finding| serde_json::from_value(finding.clone()).ok())
        .collect()
}

fn html(run: &Map<String, Value>, findings: &[Finding], gathered: &Gathered) -> String {
    let text = |name: &str| run.get(name).and_then(Value::as_str).unwrap_or("unknown");
    let workload = escaped(text("workload"));
    let validity = match text("validity") {
        validity @ ("valid" | "invalid") => validity,
        _ => "unknown",
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{workload}: {validity}</title><style>{STYLE}</style></head><body>\
         <h1>{workload}: <span class=\"{validity}\">{validity}</span></h1>\n"
    );
    put_findings(findings, gathered, &mut page);
    put_plots(gathered, &mut page);
    put_counts(gathered, &mut page);
    put_faults(gathered, &mut page);
    page.push_str("<h2>Run</h2><table>");
    for (name, value) in run {
        put_entry(name, value, &mut page);
    }
    page.push_str("</table></body></html>\n");
    page
}

fn put_findings(findings: &[Finding], gathered: &Gathered, page: &mut String) {
    if findings.is_empty() {
        page.push_str("<p>No violation was found.</p>\n");
    }
    for (finding, number) in findings.iter().take(FINDINGS_SHOWN).zip(1..) {
        write!(
            page,
            "<h2>Finding {number}</h2><p>{}</p>",
            escaped(&finding.what)
        )
        .ok();
        let events: BTreeMap<u64, &Event> = gathered
            .events
            .iter()
            .filter(|(index, event)| is_of(finding, **index, event, gathered))
            .map(|(index, event)| (*index, event))
            .collect();
        write!(page, "<figure>{}</figure>", plot::calls(&events)).ok();
        put_events(&events, page);
    }
    if let Some(more) = findings
        .len()
        .checked_sub(FINDINGS_SHOWN)
        .filter(|more| *more > 0)
    {
        writeln!(page, "<p>{more} more findings are in {RUN}.</p>").ok();
    }
}

/// Returns whether the finding names the event, or the other event of its call.
fn is_of(finding: &Finding, index: u64, event: &Event, gathered: &Gathered) -> bool {
    if finding.events.contains(&index) {
        return true;
    }
    let before = gathered.events.range(..index).rev();
    let mut same = before.filter(|(_, other)| other.process == event.process);
    let last = finding.events.last().copied().unwrap_or(0);
    // Events after the last one of the finding are not part of the failure.
    index <= last
        && same
            .next()
            .is_some_and(|(other, _)| finding.events.contains(other))
}

fn put_events(events: &BTreeMap<u64, &Event>, page: &mut String) {
    page.push_str(
        "<table><tr><th>event<th>time, s<th>process<th>type<th>f<th>key<th>value<th>error</tr>",
    );
    for (index, event) in events {
        let process = match event.process {
            Process::Client(process) => process.to_string(),
            Process::Other(_) => "nemesis".to_owned(),
        };
        let cells = [
            index.to_string(),
            format!("{:.6}", plot::seconds(event.time_ns)),
            process,
            format!("{:?}", event.kind).to_lowercase(),
            event.f.clone(),
            event.key.clone().unwrap_or_default(),
            short(&event.value.to_string()),
            event.error.clone().unwrap_or_default(),
        ];
        put_row(&cells, page);
    }
    page.push_str("</table>\n");
}

fn put_row(cells: &[String], page: &mut String) {
    page.push_str("<tr>");
    for cell in cells {
        write!(page, "<td>{}</td>", escaped(cell)).ok();
    }
    page.push_str("</tr>");
}

fn put_plots(gathered: &Gathered, page: &mut String) {
    let ms = |percent: usize| {
        move |bucket: &Bucket| Some(plot::seconds(bucket.latency_ns(percent)?) * 1000.0)
    };
    let (half, most, all) = (ms(50), ms(95), ms(100));
    page.push_str(
        "<h2>Latency</h2><p>Acknowledged calls: median (green), 95th percentile (blue), maximum \
         (red). Faults are violet.</p><figure>",
    );
    page.push_str(&plot::lines(
        gathered,
        "ms",
        true,
        &[
            ("median", "ok", &half),
            ("95th percentile", "mid", &most),
            ("maximum", "info", &all),
        ],
    ));
    let length = plot::seconds(gathered.bucket_ns());
    let rate = |of: fn(&Bucket) -> u64| {
        move |bucket: &Bucket| {
            Some(f64::from(u32::try_from(of(bucket)).unwrap_or(u32::MAX)) / length)
        }
    };
    let (ok, fail, info) = (
        rate(|bucket| bucket.ok),
        rate(|bucket| bucket.fail),
        rate(|bucket| bucket.info),
    );
    page.push_str(
        "</figure><h2>Throughput</h2><p>Acknowledged (green), refused (yellow) and unknown (red) \
         calls per second.</p><figure>",
    );
    page.push_str(&plot::lines(
        gathered,
        "/s",
        false,
        &[
            ("acknowledged", "ok", &ok),
            ("refused", "fail", &fail),
            ("unknown", "info", &info),
        ],
    ));
    page.push_str("</figure>\n");
}

fn put_counts(gathered: &Gathered, page: &mut String) {
    page.push_str("<h2>Calls</h2><table><tr><th>f<th>ok<th>fail<th>info</tr>");
    for (f, [ok, fail, info]) in &gathered.counts {
        let cells = [
            f.clone(),
            ok.to_string(),
            fail.to_string(),
            info.to_string(),
        ];
        put_row(&cells, page);
    }
    page.push_str("</table>\n");
}

fn put_faults(gathered: &Gathered, page: &mut String) {
    page.push_str("<h2>Faults</h2><table><tr><th>begin, s<th>end, s<th>fault<th>details</tr>");
    for fault in &gathered.faults {
        let cells = [
            format!("{:.3}", plot::seconds(fault.from_ns)),
            format!("{:.3}", plot::seconds(fault.to_ns)),
            fault.name.clone(),
            short(&fault.what),
        ];
        put_row(&cells, page);
    }
    page.push_str("</table>\n");
}

/// Writes one entry of run.json. The verdict is already shown above, except for its figures.
fn put_entry(name: &str, value: &Value, page: &mut String) {
    let shown = match (name, value) {
        ("verdict", value) => value.get("figures").map(ToString::to_string),
        (_, Value::String(text)) => Some(text.clone()),
        (_, value) => Some(value.to_string()),
    };
    let name = if name == "verdict" { "figures" } else { name };
    let (name, shown) = (escaped(name), escaped(&shown.unwrap_or_default()));
    write!(
        page,
        "<tr><th>{name}</th><td><code>{shown}</code></td></tr>"
    )
    .ok();
}

/// Returns the beginning of a long text.
fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} ... ({} bytes)", &text[..end], text.len()),
    }
}

/// Escapes text for HTML, also within attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Kind, Name, Recorder};
    use serde_json::json;

    /// Writes a run with a fault and a wrong answer, whose texts try to break out of the page.
    fn run(dir: &Path) {
        let recorder = Recorder::create(&dir.join(HISTORY)).expect("create");
        let (first, second) = (Process::Client(1), Process::Client(2));
        let put = |process, kind, f: &str, value| {
            recorder.record(process, kind, f, Some("<r>"), value, None)
        };
        put(first, Kind::Invoke, "write", json!(5));
        put(second, Kind::Invoke, "read", Value::Null);
        let nemesis = Process::Other(Name::Nemesis);
        put(
            nemesis,
            Kind::Info,
            "kill",
            json!({"fault": 1, "event": "begins"}),
        );
        put(
            second,
            Kind::Ok,
            "read",
            json!([1, "<script>alert(1)</script>"]),
        );
        put(
            nemesis,
            Kind::Info,
            "kill",
            json!({"fault": 1, "event": "ends"}),
        );
        put(first, Kind::Ok, "write", json!([1, 5]));
        recorder.flush().expect("flush");
        let finding = json!({"what": "<b>wrong</b> & bad", "events": [1, 3]});
        let run = json!({
            "workload": "register", "validity": "invalid", "seed": 17,
            "command": "jepsen run --seed 17",
            "verdict": {"validity": "invalid", "findings": [finding], "figures": {"keys": 1}},
        });
        std::fs::write(dir.join(RUN), run.to_string()).expect("write");
    }

    #[test]
    fn a_report_says_what_was_found_and_escapes_it() {
        let dir = tempfile::tempdir().expect("directory");
        run(dir.path());
        let page = std::fs::read_to_string(write(dir.path()).expect("report")).expect("read");
        assert!(
            page.contains("register: <span class=\"invalid\">invalid"),
            "{page}"
        );
        assert!(
            page.contains("&lt;b&gt;wrong&lt;/b&gt; &amp; bad"),
            "{page}"
        );
        assert!(
            page.contains("&lt;script&gt;") && !page.contains("<script"),
            "{page}"
        );
        assert!(page.contains("jepsen run --seed 17") && page.contains("{&quot;keys&quot;:1}"));
        assert_eq!(
            page.matches("class=\"fault\"").count(),
            2,
            "a band in either plot"
        );
        // The write ended after the last event of the finding, and is not shown with it.
        assert!(!page.contains("<td>write</td><td>&lt;r&gt;"), "{page}");
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
        let edn = std::fs::read_to_string(dir.path().join(EDN)).expect("EDN");
        assert_eq!(edn.lines().count(), 6);
    }

    #[test]
    fn without_a_record_of_the_run_there_is_a_report() {
        let dir = tempfile::tempdir().expect("directory");
        run(dir.path());
        std::fs::remove_file(dir.path().join(RUN)).expect("remove");
        let page = std::fs::read_to_string(write(dir.path()).expect("report")).expect("read");
        assert!(page.contains("unknown: <span class=\"unknown\">"), "{page}");
    }

    #[test]
    fn an_empty_history_has_a_report_and_a_missing_one_an_error() {
        let dir = tempfile::tempdir().expect("directory");
        assert_eq!(
            write(dir.path()).expect_err("no history").kind(),
            io::ErrorKind::NotFound
        );
        std::fs::write(dir.path().join(HISTORY), "").expect("write");
        write(dir.path()).expect("report");
        std::fs::write(dir.path().join(RUN), "[1").expect("write");
        let error = write(dir.path()).expect_err("no object");
        assert!(error.to_string().contains(RUN), "{error}");
    }
}
