//! What flows do not say themselves: columns from other columns and tables of the operator.

pub mod applications;
