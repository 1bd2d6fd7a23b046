package mainstem.conformance;

import static java.util.Arrays.asList;
import static mainstem.conformance.Values.bytes;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import mainstem.conformance.Values.Instant;
import mainstem.conformance.Values.Struct;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.types.DataField;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;
import org.apache.fluss.types.RowType;

/**
 * One column per data type and precision class, with the samples it is tried with: extremes, odd
 * values and nulls.
 */
final class Columns {
    private Columns() {}

    record Column(String name, DataType type, List<Object> samples) {}

    /** 9999-12-31T23:59:59 and 0001-01-01T00:00:00. */
    private static final long LATEST_MS = 253_402_300_799_000L;

    private static final long EARLIEST_MS = -62_135_596_800_000L;
    private static final int DAY_END_MS = 86_399_999;

    /**
     * Neither nested nor in INDEXED rows: there this client takes CHAR(n) for n bytes.
     */
    static final Column FREE_CHAR =
            column("char_free", DataTypes.CHAR(4), "Grüß", null, "世界 🌊", "a", "");

    private static Column column(String name, DataType type, Object... samples) {
        return new Column(name, type, asList(samples));
    }

    private static Object[] decimals(int precision, int scale) {
        BigInteger max = BigInteger.TEN.pow(precision).subtract(BigInteger.ONE);
        return new Object[] {
            new BigDecimal(max, scale),
            new BigDecimal(max.negate(), scale),
            new BigDecimal(BigInteger.ZERO, scale),
            new BigDecimal(BigInteger.ONE, scale),
            new BigDecimal(BigInteger.ONE.negate(), scale),
            null
        };
    }

    private static Object[] times(int precision) {
        return precision == 0
                ? new Object[] {0, 86_399_000, 43_200_000, null}
                : new Object[] {0, DAY_END_MS, 1, null, 43_200_123};
    }

    /** Timestamps that a precision can hold, some before 1970. */
    private static Object[] timestamps(int precision) {
        List<Object> samples =
                new ArrayList<>(asList(new Instant(0, 0), null, new Instant(-1_000, 0)));
        if (precision < 7) {
            samples.add(new Instant(LATEST_MS, 0));
            samples.add(new Instant(EARLIEST_MS, 0));
        } else {
            // 64 bits of nanoseconds reach from 1677 to 2262.
            samples.add(new Instant(9_223_372_036_854L, 775_807));
            samples.add(new Instant(-9_223_372_036_854L, 0));
        }
        if (precision > 0) {
            samples.add(new Instant(1_700_000_000_123L, 0));
            samples.add(new Instant(-1, 0));
        }
        if (precision > 3) {
            // Before 1970 in whole milliseconds only: see AllTypes.notTried.
            samples.add(new Instant(1_700_000_000_123L, 456_000));
        }
        if (precision > 6) {
            samples.add(new Instant(1_700_000_000_123L, 456_789));
        }
        return samples.toArray();
    }

    private static byte[] filled(int length, int value) {
        byte[] bytes = new byte[length];
        java.util.Arrays.fill(bytes, (byte) value);
        return bytes;
    }

    private static byte[] counting(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) {
            bytes[i] = (byte) i;
        }
        return bytes;
    }

    static List<Column> scalars() {
        List<Column> columns = new ArrayList<>();
        columns.add(column("bool", DataTypes.BOOLEAN(), true, false, null));
        columns.add(
                column(
                        "tinyint",
                        DataTypes.TINYINT(),
                        Byte.MIN_VALUE,
                        Byte.MAX_VALUE,
                        (byte) 0,
                        null));
        columns.add(
                column(
                        "smallint",
                        DataTypes.SMALLINT(),
                        Short.MIN_VALUE,
                        Short.MAX_VALUE,
                        (short) -1,
                        null));
        columns.add(
                column("int", DataTypes.INT(), Integer.MIN_VALUE, Integer.MAX_VALUE, 0, null));
        columns.add(
                column("bigint", DataTypes.BIGINT(), Long.MIN_VALUE, Long.MAX_VALUE, -1L, null));
        columns.add(
                column(
                        "float",
                        DataTypes.FLOAT(),
                        -Float.MAX_VALUE,
                        Float.MAX_VALUE,
                        Float.NaN,
                        Float.POSITIVE_INFINITY,
                        Float.NEGATIVE_INFINITY,
                        0f,
                        -0f,
                        Float.MIN_VALUE,
                        null));
        columns.add(
                column(
                        "double",
                        DataTypes.DOUBLE(),
                        -Double.MAX_VALUE,
                        Double.MAX_VALUE,
                        Double.NaN,
                        Double.POSITIVE_INFINITY,
                        Double.NEGATIVE_INFINITY,
                        0d,
                        -0d,
                        Double.MIN_VALUE,
                        null));
        columns.add(column("char_1", DataTypes.CHAR(1), "a", null, "z"));
        columns.add(column("char_10", DataTypes.CHAR(10), "ten chars!", "0123456789", null));
        columns.add(
                column(
                        "string",
                        DataTypes.STRING(),
                        "",
                        "plain",
                        null,
                        "Grüße, 世界 🌊",
                        "\0\n\t\"'\\",
                        "x".repeat(70_000)));
        columns.add(
                column(
                        "binary_1",
                        DataTypes.BINARY(1),
                        bytes(new byte[] {1}),
                        bytes(new byte[] {-1}),
                        null));
        columns.add(
                column(
                        "binary_16",
                        DataTypes.BINARY(16),
                        bytes(counting(16)),
                        null,
                        bytes(filled(16, 255))));
        columns.add(
                column(
                        "bytes",
                        DataTypes.BYTES(),
                        bytes(new byte[0]),
                        bytes(counting(256)),
                        null,
                        bytes(filled(100_000, 7))));
        columns.add(
                column(
                        "date",
                        DataTypes.DATE(),
                        0,
                        -719_162,
                        2_932_896,
                        -1,
                        Integer.MIN_VALUE,
                        Integer.MAX_VALUE,
                        null));
        // Both kinds: 64 bits up to precision 18, 128 bits above.
        int[][] decimals = {{1, 0}, {10, 2}, {18, 18}, {18, 0}, {19, 0}, {38, 10}, {38, 38}};
        for (int[] decimal : decimals) {
            columns.add(
                    column(
                            "decimal_" + decimal[0] + "_" + decimal[1],
                            DataTypes.DECIMAL(decimal[0], decimal[1]),
                            decimals(decimal[0], decimal[1])));
        }
        for (int precision : new int[] {0, 1, 3, 6, 9}) {
            columns.add(
                    column("time_" + precision, DataTypes.TIME(precision), times(precision)));
            columns.add(
                    column(
                            "timestamp_" + precision,
                            DataTypes.TIMESTAMP(precision),
                            timestamps(precision)));
            columns.add(
                    column(
                            "timestamp_ltz_" + precision,
                            DataTypes.TIMESTAMP_LTZ(precision),
                            timestamps(precision)));
        }
        return columns;
    }

    private static Struct struct(Object... fields) {
        return new Struct(asList(fields));
    }

    private static Map<Object, Object> map(Object... keysAndValues) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            map.put(keysAndValues[i], keysAndValues[i + 1]);
        }
        return map;
    }

    /** Arrays and maps of every scalar type, rows, and all of them in each other. */
    static List<Column> nested(List<Column> scalars) {
        RowType pair =
                DataTypes.ROW(
                        DataTypes.FIELD("n", DataTypes.INT()),
                        DataTypes.FIELD("label", DataTypes.STRING()));
        List<Column> columns = new ArrayList<>();
        for (Column scalar : scalars) {
            columns.add(
                    column(
                            "array_" + scalar.name(),
                            DataTypes.ARRAY(scalar.type()),
                            scalar.samples(),
                            null,
                            List.of(),
                            asList(null, null)));
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (int i = 0; i < scalar.samples().size(); i++) {
                entries.put("k" + i, scalar.samples().get(i));
            }
            columns.add(
                    column(
                            "map_string_" + scalar.name(),
                            DataTypes.MAP(DataTypes.STRING(), scalar.type()),
                            entries,
                            null,
                            Map.of()));
        }
        columns.add(
                column(
                        "map_int_row",
                        DataTypes.MAP(DataTypes.INT(), pair),
                        map(
                                Integer.MIN_VALUE,
                                struct(1, "one"),
                                Integer.MAX_VALUE,
                                struct(null, null),
                                0,
                                null),
                        null,
                        Map.of()));
        columns.add(
                column(
                        "map_date_array",
                        DataTypes.MAP(DataTypes.DATE(), DataTypes.ARRAY(DataTypes.BIGINT())),
                        map(-1, asList(Long.MIN_VALUE, null), 1, List.of(), 2, null),
                        (Object) null));
        columns.add(
                column(
                        "map_string_map",
                        DataTypes.MAP(
                                DataTypes.STRING(),
                                DataTypes.MAP(DataTypes.STRING(), DataTypes.DOUBLE())),
                        map("outer", map("", Double.NaN), "empty", Map.of()),
                        (Object) null));
        columns.add(
                column(
                        "array_array",
                        DataTypes.ARRAY(DataTypes.ARRAY(DataTypes.INT())),
                        asList(asList(1, null, 3), List.of(), null),
                        null,
                        List.of()));
        columns.add(
                column(
                        "array_row",
                        DataTypes.ARRAY(pair),
                        asList(struct(-1, ""), struct(null, null), null),
                        (Object) null));
        columns.add(
                column(
                        "array_map",
                        DataTypes.ARRAY(DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
                        asList(map("k", null), Map.of(), null),
                        (Object) null));
        columns.add(
                column(
                        "row_pair",
                        pair,
                        struct(Integer.MAX_VALUE, "max"),
                        null,
                        struct(null, null),
                        struct(Integer.MIN_VALUE, "")));
        columns.add(rowOfAll(scalars));
        columns.add(
                column(
                        "row_deep",
                        DataTypes.ROW(
                                DataTypes.FIELD("pair", pair),
                                DataTypes.FIELD("pairs", DataTypes.ARRAY(pair)),
                                DataTypes.FIELD(
                                        "by_name",
                                        DataTypes.MAP(
                                                DataTypes.STRING(), DataTypes.ARRAY(pair)))),
                        struct(
                                struct(1, "deep"),
                                asList(struct(2, "er"), null),
                                map("est", asList(struct(3, "x"), struct(null, null)))),
                        struct(null, null, null),
                        null));
        return columns;
    }

    /** A row with a field of every scalar type; its n-th sample is made of their n-th samples. */
    private static Column rowOfAll(List<Column> scalars) {
        DataField[] fields =
                scalars.stream()
                        .map(scalar -> DataTypes.FIELD("f_" + scalar.name(), scalar.type()))
                        .toArray(DataField[]::new);
        List<Object> samples = new ArrayList<>();
        for (int n = 0; n < longest(scalars); n++) {
            List<Object> cells = new ArrayList<>();
            for (Column scalar : scalars) {
                cells.add(scalar.samples().get(n % scalar.samples().size()));
            }
            samples.add(new Struct(cells));
        }
        samples.add(null);
        return new Column("row_all", DataTypes.ROW(fields), samples);
    }

    private static int longest(List<Column> columns) {
        return Collections.max(columns.stream().map(column -> column.samples().size()).toList());
    }

    static List<Column> notNull() {
        return List.of(
                column(
                        "int_not_null",
                        DataTypes.INT().copy(false),
                        Integer.MIN_VALUE,
                        Integer.MAX_VALUE),
                column("string_not_null", DataTypes.STRING().copy(false), "", "never null"),
                column(
                        "array_not_null",
                        DataTypes.ARRAY(DataTypes.INT().copy(false)).copy(false),
                        asList(1, 2),
                        List.of()));
    }

    static List<Column> everyType() {
        List<Column> columns = scalars();
        List<Column> nested = nested(columns);
        columns.addAll(notNull());
        columns.add(FREE_CHAR);
        columns.addAll(nested);
        return columns;
    }

    /**
     * Rows in which every sample of every column occurs; the first cell is the row's number. The
     * last row is null wherever that is allowed.
     */
    static List<List<Object>> rows(List<Column> columns) {
        int count = longest(columns);
        List<List<Object>> rows = new ArrayList<>();
        for (int n = 0; n <= count; n++) {
            List<Object> row = new ArrayList<>();
            row.add((long) n);
            for (Column column : columns) {
                boolean blank = n == count && column.type().isNullable();
                row.add(blank ? null : column.samples().get(n % column.samples().size()));
            }
            rows.add(row);
        }
        return rows;
    }

    static Schema schema(List<Column> columns) {
        return builder(columns).build();
    }

    /** The same, with the {@code id} as primary key. */
    static Schema keyedSchema(List<Column> columns) {
        return builder(columns).primaryKey("id").build();
    }

    private static Schema.Builder builder(List<Column> columns) {
        Schema.Builder builder =
                Schema.newBuilder().column("id", DataTypes.BIGINT().copy(false));
        for (Column column : columns) {
            builder.column(column.name(), column.type());
        }
        return builder;
    }
}
