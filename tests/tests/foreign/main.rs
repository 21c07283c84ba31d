//! The common scenario with other people's clients, each in its own language.

mod c;
mod go;
mod java;
mod kazoo;
mod node;
mod rust;
