//! Other people's programs are in the folder `programs`.
