//! Member lists on disk. What they say, and which of them counts, is the replica's.

mod files;
#[cfg(test)]
mod tests;

pub(crate) use files::MembershipFiles;
