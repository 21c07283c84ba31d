//! Member lists on disk. The replica defines their contents and decides which list is in force.

mod files;
#[cfg(test)]
mod tests;

pub(crate) use files::MembershipFiles;
