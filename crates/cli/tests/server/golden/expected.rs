//! Where this server answers otherwise, and what cannot be replayed.

use mainstem_protocol::ApiKey;

/// APIs that are refused with code 2 until they are built.
pub const NOT_BUILT: &[ApiKey] = &[
    ApiKey::CommitKvSnapshot,
    ApiKey::NotifyKvSnapshotOffset,
    ApiKey::UpdateMetadata,
    ApiKey::NotifyLeaderAndIsr,
    ApiKey::StopReplica,
    ApiKey::AdjustIsr,
    ApiKey::ControlledShutdown,
    ApiKey::CommitRemoteLogManifest,
    ApiKey::NotifyRemoteLogOffsets,
    ApiKey::CommitLakeTableSnapshot,
    ApiKey::PrepareLakeTableSnapshot,
    ApiKey::NotifyLakeTableOffset,
    ApiKey::LakeTieringHeartbeat,
    ApiKey::AddServerTag,
    ApiKey::RemoveServerTag,
    ApiKey::Rebalance,
    ApiKey::ListRebalanceProgress,
    ApiKey::CancelRebalance,
    ApiKey::AddServerTagByRack,
    ApiKey::RemoveServerTagByRack,
];

/// Exchanges that came after this table was dropped.
pub const AFTER_DROP: &[(u64, &str)] = &[
    (137, "fluss.test_real_data_drop_recreate"),
    (138, "fluss.test_real_data_drop_recreate"),
    (139, "fluss.test_log_write_after_drop"),
];

/// Exchanges that came after a partition was created.
pub const AFTER_PARTITION: &[(u64, &str, &[(&str, &str)])] = &[
    (309, "golden.log_part2", &[("y", "2024"), ("m", "01")]),
    (310, "golden.log_part2", &[("y", "2024"), ("m", "02")]),
];

/// Fields that this server sends and the recorded one did not.
pub const MORE_FIELDS: &[(u64, &str, &str)] = &[(
    120,
    "filtered_end_offset",
    "a batch is left out behind the last one; told at once, it saves a fetch",
)];

/// Exchanges with another code here (0 = success), and why.
pub const OTHER_CODES: &[(u64, i32, &str)] = &[
    (138, 7, "a missing table in Metadata is 7"),
    (156, 7, "a missing table in Metadata is 7"),
    (249, 7, "a missing table in Metadata is 7"),
    (250, 7, "a missing table in Metadata is 7"),
    (271, 7, "a missing table in Metadata is 7"),
    (272, 7, "a missing table in Metadata is 7"),
    (254, 0, "a partition path without name means the table"),
    (275, 0, "a partition path without name means the table"),
    (
        151,
        21,
        "errors of LimitScan are ERROR frames: Java does not look into the body",
    ),
    (
        417,
        21,
        "errors of LimitScan are ERROR frames: Java does not look into the body",
    ),
    (160, 7, "an unknown table has no list of files in use"),
    (507, 7, "an unknown table is 7, also with an authorizer"),
    (512, 7, "an unknown table is 7, also with an authorizer"),
    (506, 36, "a partitioned table has files per partition"),
    (513, 36, "a partitioned table has files per partition"),
    (161, 7, "offsets of an unknown table are refused"),
    (657, 7, "offsets of an unknown table are refused"),
    (244, 43, "a filter by an unknown column is 43"),
    (267, 36, "a missing partition is 36"),
    (
        364,
        0,
        "bad acks are told per bucket: fluss-rs retries every ERROR frame for ever",
    ),
    (
        365,
        0,
        "an unknown table is told per bucket: fluss-rs retries every ERROR frame for ever",
    ),
    (
        369,
        2,
        "versions are checked; version 1 carries historical writes",
    ),
    (370, 2, "versions are checked"),
    (
        450,
        0,
        "an unknown table is told per bucket, also with an authorizer",
    ),
    (
        459,
        0,
        "an unknown table is told per bucket, also with an authorizer",
    ),
    (
        270,
        41,
        "an unknown table has no snapshot, also with an authorizer",
    ),
    (
        377,
        0,
        "bad acks are told per bucket: fluss-rs retries every ERROR frame for ever",
    ),
    (
        378,
        0,
        "an unknown table is told per bucket: fluss-rs retries every ERROR frame for ever",
    ),
    (597, 46, "a mechanism in another case is another mechanism"),
    (601, 2, "versions are checked"),
    (719, 2, "every request is answered"),
    (720, 2, "every request is answered"),
    (721, 2, "every request is answered"),
    (722, 2, "every request is answered"),
    (725, 2, "versions are checked"),
];

/// Codes inside of a success that are others here: exchange, theirs, ours, why.
/// Theirs is 0 for what succeeds there.
pub const OTHER_INNER_CODES: &[(u64, i32, i32, &str)] = &[
    (379, -1, 20, "a log table takes no puts"),
    (385, 0, 35, "a column that does not exist cannot be written"),
    (388, -1, 14, "a cut batch is corrupt"),
    (389, -1, 14, "no batch is corrupt"),
    (
        390,
        -1,
        35,
        "target columns that the merge engine does not take",
    ),
    (363, -1, 14, "a batch of unknown magic is corrupt"),
    (367, 12, 21, "a plain table has no partition"),
];

/// Exchanges that are not replayed, and why.
pub const SKIPPED: &[(&[u64], &str)] = &[
    (
        &[57, 58, 71, 94, 95, 110],
        "the bucket was not led yet; here it is when its creation is answered",
    ),
    (
        &[114, 115, 121, 123, 132, 136],
        "the rows it reads were not recorded whole",
    ),
    (
        &[130, 131, 133],
        "the partition was dropped in between, with rows that were not recorded",
    ),
    (&[169, 743, 744, 745, 746], "a standby coordinator"),
    (
        &[201, 487, 488, 489, 490, 491, 492, 510],
        "remote log is not built",
    ),
    (
        &[261, 262, 264, 499, 500, 501, 502, 503, 504, 505],
        "KV snapshots are not built",
    ),
    (
        &[
            368, 381, 399, 414, 419, 420, 437, 451, 452, 460, 461, 494, 498, 731, 732, 733, 734,
            735, 736,
        ],
        "needs three servers: another one leads, follows or is stopped",
    ),
    (
        &[475],
        "a batch of an unknown schema cannot be appended here",
    ),
    (
        &[
            260, 356, 542, 558, 563, 565, 566, 567, 569, 574, 575, 576, 577, 578, 579, 580, 582,
            584, 585, 587, 588,
        ],
        "needs an authorizer",
    ),
    (
        &[664],
        "the offsets registered before expired after a time that is not waited for",
    ),
    (
        &[443],
        "a scan that expires; a test of its own waits for that",
    ),
    (&[678, 679, 680], "lake tables are not built"),
    (
        &[739, 740],
        "the disk was locked; here writes are then refused with 10 per bucket",
    ),
    (&[742], "memory for primary-key tables is not counted yet"),
    (
        &[
            527, 528, 529, 530, 531, 532, 533, 534, 535, 536, 537, 538, 539, 540, 541, 543, 544,
            545, 546, 547, 548, 554, 555, 556, 557, 559, 560, 562, 564, 568, 570, 571, 572, 573,
            581, 583, 586,
        ],
        "needs an authorizer: alice may do nothing, or only a part",
    ),
];
