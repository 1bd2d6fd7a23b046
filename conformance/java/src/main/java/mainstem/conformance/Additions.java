package mainstem.conformance;

import static java.util.Arrays.asList;
import static mainstem.conformance.Keyed.put;
import static mainstem.conformance.Keyed.remove;
import static mainstem.conformance.Keyed.updated;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import mainstem.conformance.Columns.Column;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.AggFunction;
import org.apache.fluss.metadata.AggFunctions;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableChange;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;

/** Columns that the server numbers, and columns added to tables with rows. */
final class Additions {
    private Additions() {}

    static void run(Session session, String server) throws Exception {
        numbered(session);
        for (String format : List.of("COMPACTED", "INDEXED")) {
            addColumn(session, server, format);
        }
        addAggregate(session);
        addEveryType(session);
    }

    private static void numbered(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("key", DataTypes.STRING())
                        .column("uid", DataTypes.BIGINT())
                        .column("note", DataTypes.STRING())
                        .primaryKey("key")
                        .enableAutoIncrement("uid")
                        .build();
        try (Table table =
                Keyed.create(
                        session,
                        "numbered",
                        schema,
                        Map.of("table.auto-increment.cache-size", "5"))) {
            int[] targets = {0, 2};
            List<Keyed.Change> expected = new ArrayList<>();
            for (int n = 1; n <= 12; n++) {
                Keyed.partial(table, targets, put("k" + n, null, "one"));
                expected.add(Keyed.inserted(asList("k" + n, (long) n, "one")));
            }
            Keyed.partial(table, targets, put("k4", 99L, "two"));
            expected.addAll(updated(asList("k4", 4L, "one"), asList("k4", 4L, "two")));
            Keyed.expect(session, table, "numbered", expected, new int[] {1});
        }
        Check.passed("auto-increment: numbers kept by updates, ranges of 5");
    }

    private static TableChange add(String name, DataType type) {
        return TableChange.addColumn(name, type, null, TableChange.ColumnPosition.last());
    }

    /** An old and a new writer, an old and a new reader. */
    private static void addColumn(Session session, String server, String format) throws Exception {
        String name = "keyed_evolving_" + format;
        Map<String, String> properties = Map.of("table.kv.format", format);
        try (Session other = new Session(server, Map.of());
                Table old = Keyed.create(other, name, Changes.three(), properties)) {
            List<List<Object>> now = new ArrayList<>();
            List<Keyed.Change> expected = new ArrayList<>();
            for (int a = 1; a <= 5; a++) {
                Keyed.apply(old, put(a, "b", "c"));
                now.add(asList(a, "b", "c", null));
                expected.add(Keyed.inserted(now.get(a - 1)));
            }
            session.admin
                    .alterTable(Session.path(name), List.of(add("d", DataTypes.DOUBLE())), false)
                    .get();
            try (Table table = session.connection.getTable(Session.path(name))) {
                Check.equal("schema id", 2, table.getTableInfo().getSchemaId());
                check(table, name + ": old rows", now);
                Keyed.apply(table, put(1, "new", "c", 0.5));
                set(now, expected, asList(1, "new", "c", 0.5));
                Keyed.partial(table, new int[] {0, 3}, put(2, null, null, 1.5));
                set(now, expected, asList(2, "b", "c", 1.5));
                check(table, name + ": after a new writer", now);
                Keyed.partial(old, new int[] {0, 1}, put(2, "old", null));
                set(now, expected, asList(2, "old", "c", 1.5));
                Keyed.partial(old, new int[] {0, 2}, remove(3, null, null));
                set(now, expected, asList(3, "b", null, null));
                Keyed.apply(old, put(1, "old", "c"));
                set(now, expected, asList(1, "old", "c", null));
                check(table, name + ": after an old writer", now);
                List<List<Object>> narrow = now.stream().map(row -> row.subList(0, 3)).toList();
                check(old, name + ": old reader", narrow);
                Keyed.expect(session, table, name, expected, new int[] {3}, new int[] {3, 0});
                Keyed.expect(
                        other,
                        old,
                        name + ": old reader",
                        expected.stream()
                                .map(c -> new Keyed.Change(c.kind(), c.row().subList(0, 3)))
                                .toList());
            }
        }
        Check.passed(format + " rows: ADD COLUMN, old and new writers and readers");
    }

    private static void set(
            List<List<Object>> now, List<Keyed.Change> expected, List<Object> row) {
        int place = (int) row.get(0) - 1;
        expected.addAll(updated(now.get(place), row));
        now.set(place, row);
    }

    private static void check(Table table, String what, List<List<Object>> rows) throws Exception {
        List<List<Object>> keys = rows.stream().map(row -> row.subList(0, 1)).toList();
        KeyedValues.same(what + ": lookups", rows, Keyed.lookup(table, keys));
        KeyedValues.same(what + ": scan", rows, Keyed.scan(table));
        KeyedValues.same(
                what + ": limit scan",
                rows.subList(0, 2),
                Keyed.drain(table.newScan().limit(2).createBatchScanner(), Session.types(table)));
    }

    private static void addAggregate(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("old", DataTypes.BIGINT(), AggFunctions.SUM())
                        .primaryKey("id")
                        .build();
        AggFunction sum = AggFunctions.SUM();
        TableChange change =
                TableChange.addColumn(
                        "new", DataTypes.BIGINT(), null, TableChange.ColumnPosition.last(), sum);
        String name = "aggregates_evolving";
        try (Table old =
                Keyed.create(session, name, schema, Map.of(Engines.ENGINE, "aggregation"))) {
            Keyed.apply(old, put(1, 10L), put(2, 20L));
            session.admin.alterTable(Session.path(name), List.of(change), false).get();
            try (Table table = session.connection.getTable(Session.path(name))) {
                Keyed.apply(table, put(1, 10L, 100L));
                Keyed.apply(table, put(1, 10L, 200L));
                Keyed.partial(table, new int[] {0, 2}, put(2, null, 5L));
                List<Keyed.Change> expected = new ArrayList<>();
                expected.add(Keyed.inserted(asList(1, 10L, null)));
                expected.add(Keyed.inserted(asList(2, 20L, null)));
                expected.addAll(updated(asList(1, 10L, null), asList(1, 20L, 100L)));
                expected.addAll(updated(asList(1, 20L, 100L), asList(1, 30L, 300L)));
                expected.addAll(updated(asList(2, 20L, null), asList(2, 20L, 5L)));
                Keyed.expect(session, table, name, expected);
            }
        }
        try (Table plain = Keyed.create(session, "plain_evolving", Changes.two(), Map.of())) {
            Check.failsWith(
                    "a sum added to a table without the engine",
                    Errors.INVALID_CONFIG_EXCEPTION,
                    () ->
                            session.admin
                                    .alterTable(
                                            plain.getTableInfo().getTablePath(),
                                            List.of(change),
                                            false)
                                    .get());
        }
        Check.passed("ADD COLUMN with an aggregate function");
    }

    private static void addEveryType(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder().column("id", DataTypes.INT()).primaryKey("id").build();
        List<Column> columns =
                Columns.everyType().stream().filter(c -> c.type().isNullable()).toList();
        try (Table first = Keyed.create(session, "keyed_growing", schema, Map.of())) {
            Keyed.apply(first, put(0), put(1));
        }
        session.admin
                .alterTable(
                        Session.path("keyed_growing"),
                        columns.stream().map(c -> add(c.name(), c.type())).toList(),
                        false)
                .get();
        List<Object> blank = new ArrayList<>(Collections.nCopies(columns.size() + 1, null));
        blank.set(0, 0);
        List<Object> other = new ArrayList<>(blank);
        other.set(0, 1);
        List<Object> full = new ArrayList<>(List.of(0));
        columns.forEach(column -> full.add(column.samples().get(0)));
        try (Table table = session.connection.getTable(Session.path("keyed_growing"))) {
            check(table, "columns of every type added", List.of(blank, other));
            Keyed.apply(table, Keyed.puts(List.of(full)));
            check(table, "columns of every type added, one row filled", List.of(full, other));
            List<Keyed.Change> expected = new ArrayList<>();
            expected.add(Keyed.inserted(blank));
            expected.add(Keyed.inserted(other));
            expected.addAll(updated(blank, full));
            Keyed.expect(session, table, "columns of every type added", expected);
        }
        Check.passed("ADD COLUMN of every type: old rows, one of them filled");
    }
}
