//! Bytes read and written per namespace, counted in batches.

use bytes::Bytes;
use jute::Str;
use proto::op::NamespaceBytes;
use proto::request::ReadRequest;
use proto::txn::Txn;

use super::keyed::SummarySet;
use super::summary::Moments;

/// Bytes of one batch of reads or writes, by namespace. A namespace is the first element of a path,
/// such as `app` in `/app/locks/1`.
///
/// Successive requests of a client usually belong to one namespace. Counting them does not touch
/// shared memory, allocate or look up a name until [`Self::hand_over`].
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    latest: Option<Namespace>,
    before: Vec<Namespace>,
}

/// Counters of one namespace.
#[derive(Debug)]
struct Namespace {
    /// Path within the namespace. It shares the memory of the request.
    path: Str,
    name_bytes: usize,
    bytes: Moments,
}

impl Namespace {
    fn name(&self) -> &str {
        self.path.get(1..=self.name_bytes).unwrap_or_default()
    }

    /// Returns whether a path belongs to the namespace.
    fn holds(&self, path: &str) -> bool {
        let top = self.path.as_bytes().get(..=self.name_bytes);
        let (path, top) = (path.as_bytes(), top.unwrap_or_default());
        path.starts_with(top) && matches!(path.get(top.len()), None | Some(b'/'))
    }
}

/// Number of bytes that a `Stat` adds. Source: DataTree.STAT_OVERHEAD_BYTES.
const STAT_BYTES: usize = 68;
/// Number of bytes in the length field of a string, buffer or list.
const LEN_BYTES: usize = 4;

impl Namespaces {
    /// Records the bytes of a read if its operation is counted: the path, the data or children's
    /// names in the reply `body`, and the stat. Source: DataTree.updateReadStat.
    pub(crate) fn read(&mut self, request: &ReadRequest, body: &[u8]) {
        let without_stat = body.len().saturating_sub(STAT_BYTES);
        let content = match request.op().namespace_bytes() {
            NamespaceBytes::None => return,
            NamespaceBytes::Path => 0,
            NamespaceBytes::Data => without_stat.saturating_sub(LEN_BYTES),
            NamespaceBytes::Names => bytes_of_names(body, body.len()),
            NamespaceBytes::NamesAndStat => bytes_of_names(body, without_stat),
        };
        if let Some(path) = request.path() {
            self.note(path, content + STAT_BYTES);
        }
    }

    /// Records the bytes of each change in a transaction: path and data. Source:
    /// DataTree.updateWriteStat.
    pub(crate) fn write(&mut self, txn: &Txn) {
        let fields = txn.fields();
        fields.parts.iter().for_each(|part| self.write(part));
        let content = match txn.op().namespace_bytes() {
            NamespaceBytes::None | NamespaceBytes::Names | NamespaceBytes::NamesAndStat => return,
            NamespaceBytes::Path => 0,
            NamespaceBytes::Data => fields.data.map_or(0, Bytes::len),
        };
        let paths = fields
            .path
            .into_iter()
            .chain(fields.paths.into_iter().flatten());
        paths.for_each(|path| self.note(path, content));
    }

    fn note(&mut self, path: &Str, content: usize) {
        let bytes = (path.len() + content) as u64;
        if let Some(latest) = self.latest.as_mut().filter(|it| it.holds(path)) {
            latest.bytes.record(bytes);
            return;
        }
        let Some(name) = namespace(path) else { return };
        let mut namespace = Namespace {
            name_bytes: name.len(),
            path: path.clone(),
            bytes: Moments::default(),
        };
        namespace.bytes.record(bytes);
        self.before.extend(self.latest.replace(namespace));
    }

    /// Adds the batch to the metric.
    pub(crate) fn hand_over(&self, to: &SummarySet) {
        for namespace in self.before.iter().chain(&self.latest) {
            to.merge(namespace.name(), &namespace.bytes);
        }
    }
}

/// Returns the first element of a path, or `None` for the root. Source: PathUtils.getTopNamespace.
pub(crate) fn namespace(path: &str) -> Option<&str> {
    let names = path.strip_prefix('/').filter(|names| !names.is_empty())?;
    names.split('/').next()
}

/// Returns the total length of the names in a list, which is encoded in the first `list_bytes`
/// bytes of `body`.
fn bytes_of_names(body: &[u8], list_bytes: usize) -> usize {
    let count = body.first_chunk().copied().map(u32::from_be_bytes);
    let lengths = (count.unwrap_or_default() as usize).saturating_mul(LEN_BYTES);
    list_bytes.saturating_sub(LEN_BYTES).saturating_sub(lengths)
}

#[cfg(test)]
mod tests {
    use jute::Encode;
    use proto::Stat;
    use proto::request::{PathRequest, PathWatchRequest};
    use proto::txn::{CreateTxn, SetDataTxn};

    use super::*;

    fn shown(namespaces: &Namespaces) -> Vec<(String, u64, u64)> {
        let set = SummarySet::new(1);
        namespaces.hand_over(&set);
        let figures = set.get().into_iter();
        figures.map(|(name, it)| (name, it.count, it.sum)).collect()
    }

    fn of(path: &'static str) -> PathWatchRequest {
        PathWatchRequest {
            path: Some(Str::from_static(path)),
            watch: false,
        }
    }

    #[test]
    fn reads_count_path_content_and_stat() {
        let mut namespaces = Namespaces::default();
        let mut data = Vec::new();
        jute::put_buffer(Some(b"12345"), &mut data);
        Stat::default().encode(&mut data);
        let mut children = Vec::new();
        vec![Str::from_static("ab"), Str::from_static("c")].encode(&mut children);
        namespaces.read(&ReadRequest::GetData(of("/app/x")), &data);
        namespaces.read(&ReadRequest::Exists(of("/app")), &data[9..]);
        namespaces.read(&ReadRequest::GetChildren(of("/app")), &children);
        Stat::default().encode(&mut children);
        namespaces.read(&ReadRequest::GetChildren2(of("/apple")), &children);
        namespaces.read(&ReadRequest::Exists(of("/")), &data[9..]);
        let path = of("/app").path;
        namespaces.read(&ReadRequest::GetAcl(PathRequest { path }), &data);
        let app = (6 + 5 + 68) + (4 + 68) + (4 + 3 + 68);
        let apple = 6 + 3 + 68;
        let expected = [("app".to_owned(), 3, app), ("apple".to_owned(), 1, apple)];
        assert_eq!(shown(&namespaces), expected);
    }

    #[test]
    fn a_body_that_is_too_short_counts_for_nothing() {
        let mut namespaces = Namespaces::default();
        for body in [&[][..], &[0xff; 4], &[0xff; 80]] {
            namespaces.read(&ReadRequest::GetChildren(of("/a")), body);
        }
        assert_eq!(shown(&namespaces), [("a".to_owned(), 3, 3 * 70)]);
    }

    #[test]
    fn writes_count_path_and_data_of_all_parts() {
        let mut namespaces = Namespaces::default();
        let create = Txn::Create(CreateTxn {
            path: Str::from_static("/app/n"),
            data: Some(Bytes::from_static(b"123")),
            acl: Vec::new(),
            ephemeral: false,
            parent_cversion: 1,
        });
        let set = Txn::SetData(SetDataTxn {
            path: Str::from_static("/other"),
            data: None,
            version: 1,
        });
        let path = Str::from_static("/app/n");
        namespaces.write(&Txn::Multi(vec![create, set, Txn::Delete { path }]));
        namespaces.write(&Txn::Error { code: -110 });
        let expected = [("app".to_owned(), 2, 9 + 6), ("other".to_owned(), 1, 6)];
        assert_eq!(shown(&namespaces), expected);
    }
}
