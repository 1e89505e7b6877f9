//! What each error code of ClickHouse means for a batch. One line a code; the configuration can move one.

use super::errors::Class;

use Class::{Configuration, Data, Retryable};

/// An error code that is classified.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The number in `Code: N.`.
    pub number: u32,
    /// The name that ClickHouse gives it.
    pub name: &'static str,
    /// What to do with the batch.
    pub class: Class,
    /// Why.
    pub reason: &'static str,
}

/// `TOO_MANY_PARTS` is told by its text: merges will catch up, unless the batch itself has too many
/// partitions.
pub(super) const TOO_MANY_PARTS: u32 = 252;

/// After these the rows may be in the table: the insert was ended in the middle, perhaps in a view, behind the
/// table.
pub(super) const MAY_BE_STORED: [u32; 9] = [159, 209, 210, 236, 319, 394, 735, 999, 1000];

macro_rules! codes {
    ($($number:literal $name:ident $class:ident $reason:literal;)*) => {
        /// Every code that is classified, by number.
        pub const CODES: &[Code] = &[$(Code {
            number: $number, name: stringify!($name), class: $class, reason: $reason,
        },)*];
    };
}

codes! {
    6 CANNOT_PARSE_TEXT Data "a value cannot be converted to its column";
    7 INCORRECT_NUMBER_OF_COLUMNS Data "the block does not fit the table";
    16 NO_SUCH_COLUMN_IN_TABLE Configuration "the table lacks a column";
    18 CANNOT_INSERT_ELEMENT_INTO_CONSTANT_COLUMN Data "a value does not fit its column";
    20 NUMBER_OF_COLUMNS_DOESNT_MATCH Data "the block does not fit the table";
    25 CANNOT_PARSE_ESCAPE_SEQUENCE Data "a text cannot be read";
    26 CANNOT_PARSE_QUOTED_STRING Data "a text cannot be read";
    27 CANNOT_PARSE_INPUT_ASSERTION_FAILED Data "a value cannot be read";
    33 CANNOT_READ_ALL_DATA Data "the body ends early";
    38 CANNOT_PARSE_DATE Data "a date cannot be read";
    40 CHECKSUM_DOESNT_MATCH Retryable "the body was damaged on its way";
    41 CANNOT_PARSE_DATETIME Data "a time cannot be read";
    43 ILLEGAL_TYPE_OF_ARGUMENT Data "an expression of the table does not take the value";
    44 ILLEGAL_COLUMN Data "an expression of the table does not take the column";
    47 UNKNOWN_IDENTIFIER Data "an expression of the table names what it lacks";
    53 TYPE_MISMATCH Data "a value does not fit its column";
    60 UNKNOWN_TABLE Configuration "the table is not there";
    72 CANNOT_PARSE_NUMBER Data "a number cannot be read";
    75 CANNOT_WRITE_TO_FILE_DESCRIPTOR Retryable "the server cannot write a file for now";
    80 INCORRECT_QUERY Data "the table does not take inserts like this";
    81 UNKNOWN_DATABASE Configuration "the database is not there";
    115 UNKNOWN_SETTING Configuration "the server does not know a setting of the insert";
    117 INCORRECT_DATA Data "the block does not fit the table";
    131 TOO_LARGE_STRING_SIZE Data "a text is too long";
    159 TIMEOUT_EXCEEDED Retryable "the insert took longer than the server allows";
    164 READONLY Configuration "the user may only read";
    173 CANNOT_ALLOCATE_MEMORY Retryable "the server is short of memory";
    192 UNKNOWN_USER Configuration "the server does not know the user";
    193 WRONG_PASSWORD Configuration "the password is wrong";
    194 REQUIRED_PASSWORD Configuration "the user needs a password";
    195 IP_ADDRESS_NOT_ALLOWED Configuration "the user may not connect from here";
    198 DNS_ERROR Retryable "the server cannot resolve a name";
    201 QUOTA_EXCEEDED Retryable "the user's quota is used up until its interval ends";
    202 TOO_MANY_SIMULTANEOUS_QUERIES Retryable "the server is busy";
    203 NO_FREE_CONNECTION Retryable "the server is busy";
    209 SOCKET_TIMEOUT Retryable "the upload stalled, or a peer of the server is slow";
    210 NETWORK_ERROR Retryable "a peer of the server is not reached";
    225 NO_ZOOKEEPER Retryable "the keeper is not reached, or not set up yet";
    236 ABORTED Retryable "the server is stopping";
    241 MEMORY_LIMIT_EXCEEDED Retryable "the server is short of memory";
    242 TABLE_IS_READ_ONLY Retryable "the replica has lost its keeper for now";
    243 NOT_ENOUGH_SPACE Retryable "the server's disk is full";
    244 UNEXPECTED_ZOOKEEPER_ERROR Retryable "the keeper has trouble";
    254 NO_ACTIVE_REPLICAS Retryable "no replica is there for now";
    265 NO_AVAILABLE_REPLICA Retryable "no replica is there for now";
    271 CANNOT_DECOMPRESS Retryable "the body was damaged on its way";
    279 ALL_CONNECTION_TRIES_FAILED Retryable "the server reaches no replica for now";
    285 TOO_FEW_LIVE_REPLICAS Retryable "too few replicas are there for now";
    286 UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE Retryable "an earlier insert is not on enough replicas yet";
    289 REPLICA_IS_NOT_IN_QUORUM Retryable "the replica is behind";
    290 LIMIT_EXCEEDED Retryable "a limit of the server is reached for now";
    291 DATABASE_ACCESS_DENIED Configuration "the user may not use the database";
    297 SHARD_HAS_NO_CONNECTIONS Retryable "a shard is not reached for now";
    319 UNKNOWN_STATUS_OF_INSERT Retryable "the keeper went away in the middle; the token settles it";
    321 VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE Data "a value does not fit its column";
    349 CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN Data "a value is missing";
    364 RECEIVED_ERROR_TOO_MANY_REQUESTS Retryable "a peer of the server is busy";
    384 PART_IS_TEMPORARILY_LOCKED Retryable "a part is locked for now";
    392 QUERY_IS_PROHIBITED Configuration "the server takes no such statement";
    394 QUERY_WAS_CANCELLED Retryable "somebody stopped the insert";
    425 SYSTEM_ERROR Retryable "the server's system has trouble";
    439 CANNOT_SCHEDULE_TASK Retryable "the server has no thread for it";
    452 SETTING_CONSTRAINT_VIOLATION Configuration "the user's profile fixes a setting of the insert";
    469 VIOLATED_CONSTRAINT Data "a row violates a CHECK of the table";
    473 DEADLOCK_AVOIDED Retryable "the server waited too long for a lock of the table";
    497 ACCESS_DENIED Configuration "the user lacks a right";
    499 S3_ERROR Retryable "the server's object storage has trouble";
    516 AUTHENTICATION_FAILED Configuration "user or password is wrong";
    691 UNKNOWN_ELEMENT_OF_ENUM Data "a value is none of its enum";
    735 QUERY_WAS_CANCELLED_BY_CLIENT Retryable "the connection broke, or a proxy gave up";
    745 SERVER_OVERLOADED Retryable "the server is busy";
    774 TABLE_IS_PERMANENTLY_READ_ONLY Configuration "the table was made read-only";
    999 KEEPER_EXCEPTION Retryable "the keeper has trouble";
    1000 POCO_EXCEPTION Retryable "the server's network library has trouble";
}

impl Code {
    /// The line of a number.
    #[must_use]
    pub fn find(number: u32) -> Option<&'static Self> {
        CODES.iter().find(|code| code.number == number)
    }
}
