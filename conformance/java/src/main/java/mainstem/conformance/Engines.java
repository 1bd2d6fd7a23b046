package mainstem.conformance;

import static java.util.Arrays.asList;
import static mainstem.conformance.Keyed.deleted;
import static mainstem.conformance.Keyed.inserted;
import static mainstem.conformance.Keyed.put;
import static mainstem.conformance.Keyed.remove;
import static mainstem.conformance.Keyed.updated;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import mainstem.conformance.Values.Instant;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.AggFunctions;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.rpc.protocol.MergeMode;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;

/** The merge engines first row, versioned and aggregation, and the mode OVERWRITE. */
final class Engines {
    private Engines() {}

    static final String ENGINE = "table.merge-engine";
    private static final String VERSION = "table.merge-engine.versioned.ver-column";
    private static final String DELETES = "table.delete.behavior";

    static void run(Session session) throws Exception {
        for (String image : List.of("FULL", "WAL")) {
            firstRow(session, image);
        }
        Map<String, List<Object>> versions = new LinkedHashMap<>();
        Map<String, DataType> types = new LinkedHashMap<>();
        long second = 1_736_510_400_000L;
        add(types, versions, "int", DataTypes.INT(), -1, 0, Integer.MAX_VALUE);
        add(types, versions, "bigint", DataTypes.BIGINT(), -1L, 0L, Long.MAX_VALUE);
        add(
                types,
                versions,
                "timestamp",
                DataTypes.TIMESTAMP(9),
                new Instant(-1, 0),
                new Instant(second, 456_788),
                new Instant(second, 456_789));
        add(
                types,
                versions,
                "timestamp_ltz",
                DataTypes.TIMESTAMP_LTZ(3),
                new Instant(-1, 0),
                new Instant(second, 0),
                new Instant(second + 1, 0));
        for (String name : types.keySet()) {
            versioned(session, name, types.get(name), versions.get(name));
        }
        Check.passed("versioned: INT, BIGINT, TIMESTAMP, TIMESTAMP_LTZ; equal and null versions");
        overwrite(session);
        partialDeletes(session);
        refused(session);
    }

    private static void add(
            Map<String, DataType> types,
            Map<String, List<Object>> versions,
            String name,
            DataType type,
            Object... ascending) {
        types.put(name, type);
        versions.put(name, asList(ascending));
    }

    private static void ignoresDeletes(Table table) {
        Check.equal(
                "delete behaviour that the server wrote down",
                "IGNORE",
                table.getTableInfo().getProperties().toMap().get(DELETES));
    }

    private static void firstRow(Session session, String image) throws Exception {
        Map<String, String> properties =
                Map.of(ENGINE, "first_row", "table.changelog.image", image);
        try (Table table =
                Keyed.create(session, "first_row_" + image, Changes.two(), properties)) {
            ignoresDeletes(table);
            Keyed.apply(table, put(1, "v11"), put(2, "v21"), put(2, "v23"));
            Keyed.apply(table, put(1, "later"), put(2, "later"));
            Keyed.apply(table, put(2, "v22"), remove(1, null), put(3, "v31"));
            List<List<Object>> rows = List.of(asList(1, "v11"), asList(2, "v21"), asList(3, "v31"));
            Keyed.expect(
                    session, table, "first_row", rows.stream().map(Keyed::inserted).toList());
            KeyedValues.same("first_row: scan", rows, Keyed.scan(table));
        }
        Check.passed("first_row, image " + image);
    }

    private static void versioned(
            Session session, String name, DataType type, List<Object> ascending) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("version", type)
                        .column("value", DataTypes.STRING())
                        .primaryKey("id")
                        .build();
        Map<String, String> properties = Map.of(ENGINE, "versioned", VERSION, "version");
        try (Table table = Keyed.create(session, "versioned_" + name, schema, properties)) {
            ignoresDeletes(table);
            // Null is the lowest version of all, and takes part like any other.
            List<Object> ranks = new ArrayList<>();
            ranks.add(null);
            ranks.addAll(ascending);
            List<Keyed.Change> expected = new ArrayList<>();
            List<Object> stored = null;
            int storedRank = -1;
            int[] order = {0, 0, 1, 0, 1, 2, 1, 3, 2, 3, 0};
            for (int step = 0; step < order.length; step++) {
                List<Object> row = asList(1, ranks.get(order[step]), "step " + step);
                Keyed.apply(table, Keyed.puts(List.of(row)));
                Keyed.apply(table, remove(1, null, null));
                if (order[step] < storedRank) {
                    continue;
                }
                if (stored == null) {
                    expected.add(inserted(row));
                } else {
                    expected.addAll(updated(stored, row));
                }
                stored = row;
                storedRank = order[step];
            }
            Keyed.expect(session, table, "versioned by " + name, expected);
            KeyedValues.same("versioned by " + name, List.of(stored), Keyed.scan(table));
        }
    }

    /** Rows replace what is stored, whatever engine and delete behaviour say. */
    private static void overwrite(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("a", DataTypes.INT())
                        .column("count", DataTypes.BIGINT(), AggFunctions.SUM())
                        .column("max_val", DataTypes.INT(), AggFunctions.MAX())
                        .column("name", DataTypes.STRING(), AggFunctions.LAST_VALUE())
                        .primaryKey("a")
                        .build();
        try (Table table =
                Keyed.create(session, "overwritten", schema, Map.of(ENGINE, "aggregation"))) {
            ignoresDeletes(table);
            List<List<Object>> states = new ArrayList<>();
            states.add(asList(1, 10L, 100, "Alice"));
            Keyed.apply(table, Keyed.puts(states));
            Keyed.apply(table, put(1, 5L, 150, "Bob"));
            states.add(asList(1, 15L, 150, "Bob"));
            over(table, null, put(1, 5L, 50, "Carol"));
            states.add(asList(1, 5L, 50, "Carol"));
            Keyed.apply(table, put(1, 10L, 200, "Dan"));
            states.add(asList(1, 15L, 200, "Dan"));
            over(table, new int[] {0, 1}, put(1, 7L, null, null));
            states.add(asList(1, 7L, 200, "Dan"));
            List<Keyed.Change> expected = new ArrayList<>();
            expected.add(inserted(states.get(0)));
            for (int n = 1; n < states.size(); n++) {
                expected.addAll(updated(states.get(n - 1), states.get(n)));
            }
            Keyed.apply(table, remove(1, null, null, null));
            over(table, null, remove(1, null, null, null));
            expected.add(deleted(states.get(states.size() - 1)));
            over(table, null, put(2, 1L, 2, "new"), put(2, 1L, 1, "newer"));
            expected.add(inserted(asList(2, 1L, 2, "new")));
            expected.addAll(updated(asList(2, 1L, 2, "new"), asList(2, 1L, 1, "newer")));
            Keyed.expect(session, table, "OVERWRITE", expected, new int[] {1});
        }
        Check.passed("OVERWRITE: whole, partial, deletes, new keys, in turns with aggregation");
    }

    private static void over(Table table, int[] targets, Keyed.Op... writes) throws Exception {
        var upsert = table.newUpsert().mergeMode(MergeMode.OVERWRITE);
        Keyed.apply(
                table,
                targets == null ? upsert : upsert.partialUpdate(targets),
                List.of(writes));
    }

    private static void partialDeletes(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("pk2", DataTypes.STRING())
                        .column("sum", DataTypes.BIGINT(), AggFunctions.SUM())
                        .column("max", DataTypes.INT(), AggFunctions.MAX())
                        .column("keep", DataTypes.STRING())
                        .primaryKey("id", "pk2")
                        .build();
        Map<String, String> properties = Map.of(ENGINE, "aggregation", DELETES, "ALLOW");
        try (Table table = Keyed.create(session, "aggregates_deleted", schema, properties)) {
            Keyed.apply(table, put(1, "x", 100L, 50, "keep"), put(2, "x", 1L, null, null));
            Keyed.partial(table, new int[] {0, 1, 2, 3}, remove(1, "x", null, null, null));
            Keyed.partial(table, new int[] {0, 1, 2}, put(1, "x", 5L, null, null));
            Keyed.partial(table, new int[] {0, 1, 2}, remove(2, "x", null, null, null));
            Keyed.apply(table, remove(1, "x", null, null, null));
            List<Keyed.Change> expected = new ArrayList<>();
            expected.add(inserted(asList(1, "x", 100L, 50, "keep")));
            expected.add(inserted(asList(2, "x", 1L, null, null)));
            expected.addAll(
                    updated(
                            asList(1, "x", 100L, 50, "keep"),
                            asList(1, "x", null, null, "keep")));
            expected.addAll(
                    updated(asList(1, "x", null, null, "keep"), asList(1, "x", 5L, null, "keep")));
            expected.add(deleted(asList(2, "x", 1L, null, null)));
            expected.add(deleted(asList(1, "x", 5L, null, "keep")));
            Keyed.expect(session, table, "deletes of aggregates", expected);
        }
        Check.passed("aggregation: deletes, whole and partial");
    }

    private static void refused(Session session) {
        Schema plain = Changes.two();
        Map<String, Map<String, String>> wrong = new LinkedHashMap<>();
        wrong.put("first_row that allows deletes", Map.of(ENGINE, "first_row", DELETES, "ALLOW"));
        wrong.put("versioned without a version", Map.of(ENGINE, "versioned"));
        wrong.put("versioned by a text", Map.of(ENGINE, "versioned", VERSION, "b"));
        wrong.put(
                "aggregation with the image WAL",
                Map.of(ENGINE, "aggregation", "table.changelog.image", "WAL"));
        wrong.forEach(
                (what, properties) ->
                        Check.failsWith(
                                what,
                                Errors.INVALID_CONFIG_EXCEPTION,
                                () -> Keyed.create(session, "refused", plain, properties)));
        Schema summed =
                Schema.newBuilder()
                        .column("a", DataTypes.INT())
                        .column("b", DataTypes.STRING(), AggFunctions.SUM())
                        .primaryKey("a")
                        .build();
        for (Map<String, String> properties :
                List.<Map<String, String>>of(Map.of(), Map.of(ENGINE, "aggregation"))) {
            Check.failsWith(
                    "a sum of texts, or without the engine",
                    Errors.INVALID_CONFIG_EXCEPTION,
                    () -> Keyed.create(session, "refused", summed, properties));
        }
        Check.passed("combinations that cannot be are refused");
    }
}
