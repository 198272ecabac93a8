//! The server's pure rooms, from the outside.

mod simulation;
