package mainstem.conformance;

import static java.util.Arrays.asList;
import static mainstem.conformance.Keyed.after;
import static mainstem.conformance.Keyed.deleted;
import static mainstem.conformance.Keyed.inserted;
import static mainstem.conformance.Keyed.put;
import static mainstem.conformance.Keyed.remove;
import static mainstem.conformance.Keyed.updated;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.client.table.writer.UpsertWriter;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataTypes;

/** What each write leaves in the changelog, in all formats and images. */
final class Changes {
    private Changes() {}

    private static final String IMAGE = "table.changelog.image";

    static void run(Session session) throws Exception {
        Map<String, Map<String, String>> formats = new LinkedHashMap<>();
        formats.put("arrow", Map.of());
        formats.put("compacted", Map.of("table.log.format", "COMPACTED"));
        formats.put("indexed_rows", Map.of("table.kv.format", "INDEXED"));
        formats.put(
                "indexed", Map.of("table.kv.format", "INDEXED", "table.log.format", "INDEXED"));
        for (var format : formats.entrySet()) {
            full(session, format.getKey(), format.getValue());
            wal(session, format.getKey(), format.getValue());
            partial(session, format.getKey(), format.getValue());
            Check.passed(format.getKey() + ": images FULL and WAL, partial updates and deletes");
        }
        offsets(session);
        deletes(session);
    }

    static Schema two() {
        return Schema.newBuilder()
                .column("a", DataTypes.INT())
                .column("b", DataTypes.STRING())
                .primaryKey("a")
                .build();
    }

    static Schema three() {
        return Schema.newBuilder()
                .column("a", DataTypes.INT())
                .column("b", DataTypes.STRING())
                .column("c", DataTypes.STRING())
                .primaryKey("a")
                .build();
    }

    private static void full(Session session, String format, Map<String, String> properties)
            throws Exception {
        try (Table table = Keyed.create(session, "full_" + format, two(), properties)) {
            // Within one batch later rows see earlier ones.
            Keyed.apply(table, put(1, "v11"), put(2, "v21"), put(2, "v23"));
            Keyed.apply(table, put(2, "v22"), put(1, "v21"), remove(1, null));
            // No change, no record; an equal row is a change.
            Keyed.apply(table, remove(1, null), remove(42, null));
            Keyed.apply(table, put(2, "v22"));
            Keyed.apply(table, put(1, null));
            List<Keyed.Change> expected =
                    new ArrayList<>(List.of(inserted(asList(1, "v11")), inserted(asList(2, "v21"))));
            expected.addAll(updated(asList(2, "v21"), asList(2, "v23")));
            expected.addAll(updated(asList(2, "v23"), asList(2, "v22")));
            expected.addAll(updated(asList(1, "v11"), asList(1, "v21")));
            expected.add(deleted(asList(1, "v21")));
            expected.addAll(updated(asList(2, "v22"), asList(2, "v22")));
            expected.add(inserted(asList(1, null)));
            Keyed.expect(
                    session, table, "FULL", expected, new int[] {1}, new int[] {1, 0});
            Check.equal("count", 2L, Keyed.count(session, table));
        }
    }

    private static void wal(Session session, String format, Map<String, String> properties)
            throws Exception {
        Map<String, String> options = new LinkedHashMap<>(properties);
        options.put(IMAGE, "WAL");
        try (Table table = Keyed.create(session, "wal_" + format, three(), options)) {
            Keyed.apply(table, put(1, "v11", null), put(2, "v21", null));
            Keyed.apply(table, put(1, "v12", null), remove(3, null, null));
            Keyed.apply(table, remove(1, null, null));
            Keyed.partial(table, new int[] {0}, put(1, null, null));
            Keyed.partial(table, new int[] {0, 1}, put(1, "v1", "ignored"));
            Keyed.partial(table, new int[] {2, 0}, put(1, null, "hello"));
            Keyed.partial(table, new int[] {0}, put(1, null, null));
            Keyed.partial(table, new int[] {0, 1}, remove(1, null, null));
            Keyed.partial(table, new int[] {0, 2}, remove(1, null, null));
            Keyed.expect(
                    session,
                    table,
                    "WAL",
                    List.of(
                            after(asList(1, "v11", null)),
                            after(asList(2, "v21", null)),
                            after(asList(1, "v12", null)),
                            deleted(asList(1, "v12", null)),
                            inserted(asList(1, null, null)),
                            after(asList(1, "v1", null)),
                            after(asList(1, "v1", "hello")),
                            after(asList(1, null, "hello")),
                            deleted(asList(1, null, "hello"))));
            KeyedValues.same("WAL: scan", List.of(asList(2, "v21", null)), Keyed.scan(table));
            Check.failsWith(
                    "a count of rows with the image WAL",
                    Errors.INVALID_TABLE_EXCEPTION,
                    () -> Keyed.count(session, table));
        }
    }

    private static void partial(Session session, String format, Map<String, String> properties)
            throws Exception {
        try (Table table = Keyed.create(session, "partial_" + format, three(), properties)) {
            Keyed.partial(
                    table,
                    new int[] {0},
                    put(1, null, null),
                    put(2, null, null),
                    put(2, null, null));
            Keyed.partial(
                    table,
                    new int[] {0, 1},
                    put(1, "v11", null),
                    put(2, "v21", null),
                    put(2, "v23", null));
            Keyed.partial(table, new int[] {2, 0}, put(1, "ignored", "c3"), put(3, null, "v211"));
            Keyed.partial(table, new int[] {0, 1}, remove(1, null, null));
            Keyed.partial(table, new int[] {0, 2}, remove(1, null, null), remove(9, null, null));
            Keyed.partial(table, new int[] {2, 1, 0}, put(2, null, "all"));
            Keyed.partial(table, new int[] {0, 1}, put(7, "kept", "ignored"));
            List<Keyed.Change> expected =
                    new ArrayList<>(
                            List.of(
                                    inserted(asList(1, null, null)),
                                    inserted(asList(2, null, null))));
            expected.addAll(updated(asList(1, null, null), asList(1, "v11", null)));
            expected.addAll(updated(asList(2, null, null), asList(2, "v21", null)));
            expected.addAll(updated(asList(2, "v21", null), asList(2, "v23", null)));
            expected.addAll(updated(asList(1, "v11", null), asList(1, "v11", "c3")));
            expected.add(inserted(asList(3, null, "v211")));
            expected.addAll(updated(asList(1, "v11", "c3"), asList(1, null, "c3")));
            expected.add(deleted(asList(1, null, "c3")));
            expected.addAll(updated(asList(2, "v23", null), asList(2, null, "all")));
            expected.add(inserted(asList(7, "kept", null)));
            Keyed.expect(session, table, "partial", expected, new int[] {2});
        }
    }

    /** The end offset that each acknowledgement tells: a batch without a change takes one. */
    private static void offsets(Session session) throws Exception {
        try (Table table = Keyed.create(session, "end_offsets", two(), Map.of())) {
            UpsertWriter writer = table.newUpsert().createWriter();
            var types = Session.types(table);
            List<Long> ends = new ArrayList<>();
            ends.add(writer.upsert(Values.row(asList(1, "a"), types)).get().getLogEndOffset());
            ends.add(writer.upsert(Values.row(asList(2, "b"), types)).get().getLogEndOffset());
            ends.add(writer.upsert(Values.row(asList(1, "aa"), types)).get().getLogEndOffset());
            ends.add(writer.delete(Values.row(asList(1, null), types)).get().getLogEndOffset());
            ends.add(writer.delete(Values.row(asList(42, null), types)).get().getLogEndOffset());
            ends.add(writer.upsert(Values.row(asList(3, "c"), types)).get().getLogEndOffset());
            Check.equal("end offsets in the answers", List.of(1L, 2L, 4L, 5L, 6L, 7L), ends);
        }
        Check.passed("end offsets of acknowledgements, batches without a change");
    }

    private static void deletes(Session session) throws Exception {
        String behaviour = "table.delete.behavior";
        try (Table table =
                Keyed.create(session, "deletes_ignored", two(), Map.of(behaviour, "IGNORE"))) {
            Keyed.apply(table, put(1, "stays"), remove(1, null), remove(2, null), put(3, "x"));
            Keyed.expect(
                    session,
                    table,
                    "IGNORE",
                    List.of(inserted(asList(1, "stays")), inserted(asList(3, "x"))));
        }
        try (Table table =
                Keyed.create(session, "deletes_disabled", two(), Map.of(behaviour, "DISABLE"))) {
            Keyed.apply(table, put(1, "stays"));
            Check.failsWith(
                    "a delete where deletes are disabled",
                    Errors.DELETION_DISABLED_EXCEPTION,
                    () -> Keyed.apply(table, remove(1, null)));
            Keyed.expect(session, table, "DISABLE", List.of(inserted(asList(1, "stays"))));
        }
        Check.passed("delete behaviours IGNORE and DISABLE");
    }
}
