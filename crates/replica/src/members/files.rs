//! Order of the writes to the files of member lists.
//!
//! Source: QuorumPeerConfig.writeDynamicConfig, editStaticConfig; AtomicFileWritingIdiom.

use config::membership::Membership;

/// Suffix of the file that contains the last list seen, next to zoo.cfg.
const NEXT: &str = ".dynamic.next";

/// File that contains a member list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFile {
    /// The last list seen (`zoo.cfg.dynamic.next`). `None` removes the file.
    LastSeen(Option<Membership>),
    /// The committed list (`zoo.cfg.dynamic.<version>`, to which zoo.cfg refers).
    Committed {
        /// List to write.
        list: Membership,
        /// Whether the list contains this server's client address, which zoo.cfg must then omit.
        has_client: bool,
        /// Whether to remove the file with the last list seen.
        removes_last_seen: bool,
    },
}

/// Access to the files next to zoo.cfg, implemented by a host. Each write is atomic, and durable
/// when the call returns.
pub trait MemberFiles {
    /// Error of an operation.
    type Error;

    /// Replaces the file whose name is zoo.cfg's name with `suffix`.
    ///
    /// # Errors
    /// If the file cannot be written. It is then unchanged.
    fn replace(&mut self, suffix: &str, text: &str) -> Result<(), Self::Error>;

    /// Removes the file whose name is zoo.cfg's name with `suffix`, if it exists.
    ///
    /// # Errors
    /// If the file cannot be removed.
    fn remove(&mut self, suffix: &str) -> Result<(), Self::Error>;

    /// Makes zoo.cfg refer to the file with `suffix`. If `has_client`, the list contains this
    /// server's client address, and zoo.cfg omits it.
    ///
    /// # Errors
    /// If zoo.cfg cannot be read or written. It is then unchanged.
    fn name_dynamic(&mut self, suffix: &str, has_client: bool) -> Result<(), Self::Error>;
}

impl MemberFile {
    /// Makes the list durable. zoo.cfg refers to a committed list before the file of the last list
    /// seen is removed, so at least one of the two lists is on disk at any time.
    ///
    /// # Errors
    /// If an operation of `files` fails. Earlier operations are not undone.
    pub fn write<F: MemberFiles>(&self, files: &mut F) -> Result<(), F::Error> {
        match self {
            Self::LastSeen(Some(list)) => files.replace(NEXT, &list.file_text(true)),
            Self::LastSeen(None) => files.remove(NEXT),
            Self::Committed {
                list,
                has_client,
                removes_last_seen,
            } => {
                let dynamic = format!(".dynamic.{}", list.version);
                files.replace(&dynamic, &list.file_text(false))?;
                files.name_dynamic(&dynamic, *has_client)?;
                if *removes_last_seen {
                    files.remove(NEXT)
                } else {
                    Ok(())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fake that records the completed steps and fails at one of them.
    struct Noted {
        done: Vec<String>,
        fails_at: usize,
    }

    impl Noted {
        fn step(&mut self, what: String) -> Result<(), String> {
            if self.done.len() == self.fails_at {
                return Err(what);
            }
            self.done.push(what);
            Ok(())
        }
    }

    impl MemberFiles for Noted {
        type Error = String;

        fn replace(&mut self, suffix: &str, text: &str) -> Result<(), String> {
            let has_version = text.contains("version=");
            self.step(format!("write {suffix} {has_version}"))
        }

        fn remove(&mut self, suffix: &str) -> Result<(), String> {
            self.step(format!("remove {suffix}"))
        }

        fn name_dynamic(&mut self, suffix: &str, has_client: bool) -> Result<(), String> {
            self.step(format!("name {suffix} {has_client}"))
        }
    }

    fn written(file: &MemberFile, fails_at: usize) -> (Vec<String>, bool) {
        let done = Vec::new();
        let mut noted = Noted { done, fails_at };
        let is_written = file.write(&mut noted).is_ok();
        (noted.done, is_written)
    }

    #[test]
    fn the_committed_list_is_named_before_the_proposed_one_is_removed() {
        let list = "server.1=a:1:2:participant;3\nversion=1f";
        let list = Membership::parse(list, false).unwrap();
        let committed = MemberFile::Committed {
            list: list.clone(),
            has_client: true,
            removes_last_seen: true,
        };
        let steps = [
            "write .dynamic.1f false",
            "name .dynamic.1f true",
            "remove .dynamic.next",
        ];
        let (done, is_written) = written(&committed, usize::MAX);
        assert_eq!(done, steps);
        assert!(is_written);
        for fails_at in 0..steps.len() {
            let (done, is_written) = written(&committed, fails_at);
            assert_eq!(done, steps[..fails_at], "nothing behind what failed");
            assert!(!is_written);
        }
        let seen = MemberFile::LastSeen(Some(list));
        assert_eq!(written(&seen, 9).0, ["write .dynamic.next true"]);
        let none = MemberFile::LastSeen(None);
        assert_eq!(written(&none, 9).0, ["remove .dynamic.next"]);
    }
}
