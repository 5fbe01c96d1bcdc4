//! Each protection taken out: the simulation must find a violation.
