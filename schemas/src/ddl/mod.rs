//! Schema statements as their servers log them: text in, typed changes out.

pub mod mysql;
