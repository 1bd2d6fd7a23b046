package mainstem.conformance;

import static java.util.Arrays.asList;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import mainstem.conformance.Columns.Column;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.rpc.protocol.Errors;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypeRoot;
import org.apache.fluss.types.DataTypes;

/** Every legal type as a key, alone, all together, and under the key encodings of lake formats. */
final class Keys {
    private Keys() {}

    static void run(Session session) throws Exception {
        List<Column> scalars = Columns.scalars();
        for (Column column : scalars) {
            alone(session, "key", column, Map.of());
        }
        Check.passed(scalars.size() + " key types: insert, lookup, update, delete, changelog");
        for (Column column : scalars) {
            // One precision of each class is enough.
            if (!column.name().endsWith("_1") && !SIMILAR.contains(column.name())) {
                alone(session, "indexed_key", column, Map.of("table.kv.format", "INDEXED"));
            }
        }
        Check.passed("key types of INDEXED rows");
        for (String format : List.of("paimon", "iceberg")) {
            int tried = 0;
            for (Column column : scalars) {
                boolean isUnknown =
                        format.equals("iceberg") && NOT_ICEBERG.contains(column.type().getTypeRoot());
                if (isUnknown || column.name().endsWith("_1") || SIMILAR.contains(column.name())) {
                    continue;
                }
                Column tame = format.equals("iceberg") ? asIcebergHasIt(column) : column;
                alone(session, format + "_key", tame, Map.of("table.datalake.format", format));
                tried++;
            }
            Check.passed(tried + " key types under the encoding of " + format);
        }
        Check.cannot(
                "under Iceberg's encoding fluss-client 1.0.0 takes no BOOLEAN, TINYINT, SMALLINT,"
                        + " TIMESTAMP_LTZ as a key, and cuts timestamps to microseconds");
        nestedAreRefused(session);
        together(session, scalars);
    }

    private static final Set<String> SIMILAR =
            Set.of("decimal_1_0", "decimal_18_18", "decimal_38_38");

    private static final Set<DataTypeRoot> NOT_ICEBERG =
            Set.of(
                    DataTypeRoot.BOOLEAN,
                    DataTypeRoot.TINYINT,
                    DataTypeRoot.SMALLINT,
                    DataTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE);

    /** No key without a byte, no nanoseconds. */
    private static Column asIcebergHasIt(Column column) {
        List<Object> samples =
                column.samples().stream()
                        .filter(Objects::nonNull)
                        .filter(
                                sample ->
                                        !sample.equals("")
                                                && !sample.equals(ByteBuffer.allocate(0))
                                                && !(sample instanceof Values.Instant instant
                                                        && instant.nanoseconds() % 1_000 != 0))
                        .toList();
        return new Column(column.name(), column.type(), samples);
    }

    private static void alone(
            Session session, String prefix, Column column, Map<String, String> properties)
            throws Exception {
        String name = prefix + "_" + column.name();
        // The key stands behind the value: its position must not matter.
        Schema schema =
                Schema.newBuilder()
                        .column("v", DataTypes.INT())
                        .column("k", column.type().copy(false))
                        .primaryKey("k")
                        .build();
        try (Table table = Keyed.create(session, name, schema, properties, 3)) {
            List<Object> samples = column.samples().stream().filter(Objects::nonNull).toList();
            List<List<Object>> keys = samples.stream().map(Collections::singletonList).toList();
            List<List<Object>> first = new ArrayList<>();
            List<List<Object>> second = new ArrayList<>();
            for (int n = 0; n < samples.size(); n++) {
                first.add(asList(n, samples.get(n)));
                second.add(asList(100 + n, samples.get(n)));
            }
            Check.equal(
                    name + ": lookups in an empty table",
                    Collections.nCopies(keys.size(), null),
                    Keyed.lookup(table, keys));
            Keyed.apply(table, Keyed.puts(first));
            KeyedValues.same(name + ": lookups", first, Keyed.lookup(table, keys));
            Keyed.apply(table, Keyed.puts(second));
            KeyedValues.same(name + ": lookups", second, Keyed.lookup(table, keys));
            Keyed.apply(table, Keyed.removes(second.subList(0, 1)));
            List<List<Object>> left = new ArrayList<>(second);
            left.set(0, null);
            Check.equal(name + ": lookups after one deletion", left, Keyed.lookup(table, keys));
            Check.equal(name + ": rows of a scan", keys.size() - 1, Keyed.scan(table).size());
            List<Session.Read> reads =
                    Keyed.changes(session, table, 3 * keys.size() + 1, null);
            for (int n = 0; n < samples.size(); n++) {
                Object key = samples.get(n);
                List<Keyed.Change> expected = new ArrayList<>();
                expected.add(Keyed.inserted(first.get(n)));
                expected.addAll(Keyed.updated(first.get(n), second.get(n)));
                if (n == 0) {
                    expected.add(Keyed.deleted(second.get(n)));
                }
                Check.equal(
                        name + ": changes of key " + n,
                        expected,
                        reads.stream()
                                .filter(read -> key.equals(read.cells().get(1)))
                                .map(read -> new Keyed.Change(read.change(), read.cells()))
                                .toList());
            }
        }
    }

    private static void nestedAreRefused(Session session) {
        Map<String, DataType> nested =
                Map.of(
                        "array", DataTypes.ARRAY(DataTypes.INT()),
                        "map", DataTypes.MAP(DataTypes.INT(), DataTypes.INT()),
                        "row", DataTypes.ROW(DataTypes.FIELD("f", DataTypes.INT())));
        nested.forEach(
                (name, type) ->
                        Check.failsWith(
                                "a key of type " + name,
                                Errors.INVALID_TABLE_EXCEPTION,
                                () ->
                                        Keyed.create(
                                                session,
                                                "key_" + name,
                                                Schema.newBuilder()
                                                        .column("k", type)
                                                        .primaryKey("k")
                                                        .build(),
                                                Map.of())));
        Check.passed("nested types are refused as keys");
    }

    /** One key of all types, in an order that is not the schema's. */
    private static void together(Session session, List<Column> scalars) throws Exception {
        Schema.Builder builder = Schema.newBuilder().column("v", DataTypes.STRING());
        List<String> order = new ArrayList<>();
        for (Column column : scalars) {
            builder.column(column.name(), column.type().copy(false));
            order.add(0, column.name());
        }
        try (Table table =
                Keyed.create(
                        session, "key_of_all_types", builder.primaryKey(order).build(), Map.of(), 2)) {
            List<List<Object>> rows = new ArrayList<>();
            List<List<Object>> keys = new ArrayList<>();
            for (int n = 0; n < 12; n++) {
                List<Object> row = new ArrayList<>(List.of("row " + n));
                List<Object> key = new ArrayList<>();
                for (Column column : scalars) {
                    List<Object> samples =
                            column.samples().stream().filter(Objects::nonNull).toList();
                    row.add(samples.get(n % samples.size()));
                    key.add(0, samples.get(n % samples.size()));
                }
                rows.add(row);
                keys.add(key);
            }
            Keyed.apply(table, Keyed.puts(rows));
            KeyedValues.same("key of all types: lookups", rows, Keyed.lookup(table, keys));
            List<Object> other = new ArrayList<>(keys.get(0));
            other.set(other.size() - 1, !(boolean) other.get(other.size() - 1));
            Check.equal(
                    "a key that differs in its last column",
                    Collections.singletonList(null),
                    Keyed.lookup(table, List.of(other)));
            Keyed.changes(session, table, rows.size(), null)
                    .forEach(read -> Check.that("a row written", rows.contains(read.cells())));
            Check.equal("rows of a scan", rows.size(), Keyed.scan(table).size());
        }
        Check.passed("one key of all types");
    }
}
