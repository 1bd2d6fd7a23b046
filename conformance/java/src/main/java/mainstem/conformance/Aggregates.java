package mainstem.conformance;

import static java.util.Arrays.asList;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import mainstem.conformance.Values.Instant;
import mainstem.conformance.Values.Struct;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.AggFunction;
import org.apache.fluss.metadata.AggFunctions;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/** Every aggregate function with every type that it takes; bitmaps by the library's own classes. */
final class Aggregates {
    private Aggregates() {}

    /** Four inputs, and what is stored after each of them. */
    private record Case(AggFunction function, DataType type, List<Object> in, List<Object> out) {}

    private static final int STEPS = 4;

    static void run(Session session) throws Exception {
        List<Case> cases = new ArrayList<>();
        sums(cases);
        products(cases);
        extremes(cases);
        others(cases);
        columns(session, cases);
        bitmaps(session);
        partial(session);
    }

    private static void add(
            List<Case> cases, AggFunction function, DataType type, List<?> in, List<?> out) {
        Check.equal("steps of a case", STEPS, in.size());
        Check.equal("results of a case", STEPS, out.size());
        cases.add(new Case(function, type, new ArrayList<>(in), new ArrayList<>(out)));
    }

    private static BigDecimal decimal(String text) {
        return new BigDecimal(text);
    }

    private static void sums(List<Case> cases) {
        AggFunction sum = AggFunctions.SUM();
        add(cases, sum, DataTypes.TINYINT(), bytes(5, 3, null, 127), bytes(5, 8, 8, -121));
        add(
                cases,
                sum,
                DataTypes.SMALLINT(),
                shorts(100, 200, 32_767, -1),
                shorts(100, 300, -32_469, -32_470));
        add(
                cases,
                sum,
                DataTypes.INT(),
                asList(null, 1000, 2000, Integer.MAX_VALUE),
                asList(null, 1000, 3000, Integer.MIN_VALUE + 2999));
        add(
                cases,
                sum,
                DataTypes.BIGINT(),
                asList(10_000L, 20_000L, null, Long.MAX_VALUE),
                asList(10_000L, 30_000L, 30_000L, Long.MIN_VALUE + 29_999));
        add(cases, sum, DataTypes.FLOAT(), asList(1.5f, 2.5f, null, -4f), asList(1.5f, 4f, 4f, 0f));
        add(
                cases,
                sum,
                DataTypes.DOUBLE(),
                asList(10.5, 20.5, Double.MAX_VALUE, Double.MAX_VALUE),
                asList(10.5, 31.0, Double.MAX_VALUE, Double.POSITIVE_INFINITY));
        add(
                cases,
                sum,
                DataTypes.DECIMAL(10, 2),
                asList(decimal("100.50"), decimal("200.75"), null, decimal("-301.25")),
                asList(decimal("100.50"), decimal("301.25"), decimal("301.25"), decimal("0.00")));
        // What does not fit becomes null, and null takes the next input.
        add(
                cases,
                sum,
                DataTypes.DECIMAL(3, 0),
                asList(decimal("999"), decimal("1"), decimal("7"), decimal("1")),
                asList(decimal("999"), null, decimal("7"), decimal("8")));
        String nines = "9".repeat(37);
        add(
                cases,
                sum,
                DataTypes.DECIMAL(38, 0),
                asList(decimal(nines), decimal("1"), decimal("-1"), null),
                asList(
                        decimal(nines),
                        decimal("1" + "0".repeat(37)),
                        decimal(nines),
                        decimal(nines)));
    }

    private static void products(List<Case> cases) {
        AggFunction product = AggFunctions.PRODUCT();
        add(cases, product, DataTypes.TINYINT(), bytes(5, 3, null, 10), bytes(5, 15, 15, -106));
        add(
                cases,
                product,
                DataTypes.SMALLINT(),
                shorts(10, 20, null, -1),
                shorts(10, 200, 200, -200));
        add(
                cases,
                product,
                DataTypes.INT(),
                asList(100, 200, null, Integer.MAX_VALUE),
                asList(100, 20_000, 20_000, -20_000));
        add(
                cases,
                product,
                DataTypes.BIGINT(),
                asList(null, 3L, -5L, Long.MAX_VALUE),
                asList(null, 3L, -15L, -15L * Long.MAX_VALUE));
        add(
                cases,
                product,
                DataTypes.FLOAT(),
                asList(2.5f, 4f, null, -1f),
                asList(2.5f, 10f, 10f, -10f));
        add(
                cases,
                product,
                DataTypes.DOUBLE(),
                asList(0.9, 0.8, null, 1.0),
                asList(0.9, 0.7200000000000001, 0.7200000000000001, 0.7200000000000001));
        add(
                cases,
                product,
                DataTypes.DECIMAL(10, 2),
                asList(decimal("2.50"), decimal("4.00"), decimal("0.25"), decimal("0.01")),
                asList(decimal("2.50"), decimal("10.00"), decimal("2.50"), decimal("0.03")));
        add(
                cases,
                product,
                DataTypes.DECIMAL(4, 2),
                asList(decimal("99.99"), decimal("99.99"), decimal("-0.05"), decimal("0.10")),
                asList(decimal("99.99"), null, decimal("-0.05"), decimal("-0.01")));
    }

    private static void extremes(List<Case> cases) {
        both(
                cases,
                DataTypes.TINYINT(),
                bytes(-5, -10, null, 7),
                bytes(-5, -5, -5, 7),
                bytes(-5, -10, -10, -10));
        both(
                cases,
                DataTypes.SMALLINT(),
                shorts(null, 3, -3, 4),
                shorts(null, 3, 3, 4),
                shorts(null, 3, -3, -3));
        both(
                cases,
                DataTypes.INT(),
                asList(1000, 2000, null, 5),
                asList(1000, 2000, 2000, 2000),
                asList(1000, 1000, 1000, 5));
        both(
                cases,
                DataTypes.BIGINT(),
                asList(0L, Long.MIN_VALUE, Long.MAX_VALUE, null),
                asList(0L, 0L, Long.MAX_VALUE, Long.MAX_VALUE),
                asList(0L, Long.MIN_VALUE, Long.MIN_VALUE, Long.MIN_VALUE));
        // NaN is the largest, and −0.0 is less than 0.0.
        both(
                cases,
                DataTypes.FLOAT(),
                asList(-0f, 0f, Float.NaN, 1f),
                asList(-0f, 0f, Float.NaN, Float.NaN),
                asList(-0f, -0f, -0f, -0f));
        both(
                cases,
                DataTypes.DOUBLE(),
                asList(0.0, -0.0, Double.NaN, Double.POSITIVE_INFINITY),
                asList(0.0, 0.0, Double.NaN, Double.NaN),
                asList(0.0, -0.0, -0.0, -0.0));
        both(
                cases,
                DataTypes.DECIMAL(10, 2),
                asList(decimal("99.99"), decimal("79.99"), decimal("89.99"), null),
                asList(decimal("99.99"), decimal("99.99"), decimal("99.99"), decimal("99.99")),
                asList(decimal("99.99"), decimal("79.99"), decimal("79.99"), decimal("79.99")));
        BigDecimal minusOne = decimal("-1.0000000000");
        BigDecimal two = decimal("2.0000000000");
        BigDecimal minusThree = decimal("-3.0000000000");
        both(
                cases,
                DataTypes.DECIMAL(38, 10),
                asList(minusOne, two, null, minusThree),
                asList(minusOne, two, two, two),
                asList(minusOne, minusOne, minusOne, minusThree));
        both(
                cases,
                DataTypes.STRING(),
                asList("apple", "banana", "", "ü"),
                asList("apple", "banana", "banana", "ü"),
                asList("apple", "apple", "", ""));
        // Bytes of UTF-8 decide, which sort like code points and not like UTF-16.
        both(
                cases,
                DataTypes.STRING(),
                asList("\uffee", "🌊", null, "a"),
                asList("\uffee", "🌊", "🌊", "🌊"),
                asList("\uffee", "\uffee", "\uffee", "a"));
        both(
                cases,
                DataTypes.CHAR(2),
                asList("bb", "ba", "bc", null),
                asList("bb", "bb", "bc", "bc"),
                asList("bb", "ba", "ba", "ba"));
        both(
                cases,
                DataTypes.DATE(),
                asList(20_089, 20_453, -1, null),
                asList(20_089, 20_453, 20_453, 20_453),
                asList(20_089, 20_089, -1, -1));
        both(
                cases,
                DataTypes.TIME(3),
                asList(36_000_000, 52_200_000, 1, null),
                asList(36_000_000, 52_200_000, 52_200_000, 52_200_000),
                asList(36_000_000, 36_000_000, 1, 1));
        Instant early = new Instant(1_736_510_400_000L, 1);
        Instant late = new Instant(1_736_510_400_000L, 2);
        Instant ancient = new Instant(-1_000, 0);
        for (DataType type : List.of(DataTypes.TIMESTAMP(9), DataTypes.TIMESTAMP_LTZ(9))) {
            both(
                    cases,
                    type,
                    asList(early, late, ancient, null),
                    asList(early, late, late, late),
                    asList(early, early, ancient, ancient));
        }
    }

    private static void both(
            List<Case> cases, DataType type, List<?> in, List<?> max, List<?> min) {
        add(cases, AggFunctions.MAX(), type, in, max);
        add(cases, AggFunctions.MIN(), type, in, min);
    }

    private static void others(List<Case> cases) {
        add(
                cases,
                AggFunctions.LISTAGG(),
                DataTypes.STRING(),
                asList("a", null, "b", ""),
                asList("a", "a", "a,b", "a,b,"));
        add(
                cases,
                AggFunctions.LISTAGG("|"),
                DataTypes.STRING(),
                asList(null, "a", "b", "c"),
                asList(null, "a", "a|b", "a|b|c"));
        add(
                cases,
                AggFunctions.STRING_AGG(),
                DataTypes.STRING(),
                asList("x", "y", "z", null),
                asList("x", "x,y", "x,y,z", "x,y,z"));
        add(
                cases,
                AggFunctions.STRING_AGG("; "),
                DataTypes.STRING(),
                asList("developer", "java", "flink", "ü"),
                asList(
                        "developer",
                        "developer; java",
                        "developer; java; flink",
                        "developer; java; flink; ü"));
        DataType bool = DataTypes.BOOLEAN();
        add(
                cases,
                AggFunctions.BOOL_AND(),
                bool,
                asList(null, true, true, false),
                asList(null, true, true, false));
        add(
                cases,
                AggFunctions.BOOL_AND(),
                bool,
                asList(false, null, true, true),
                asList(false, false, false, false));
        add(
                cases,
                AggFunctions.BOOL_OR(),
                bool,
                asList(null, false, false, true),
                asList(null, false, false, true));
        add(
                cases,
                AggFunctions.BOOL_OR(),
                bool,
                asList(true, null, false, false),
                asList(true, true, true, true));
        // Any type: of every column's samples three, and a null between.
        for (Columns.Column column : Columns.everyType()) {
            List<Object> samples = column.samples().stream().filter(s -> s != null).toList();
            Object one = samples.get(0);
            Object two = samples.get(1 % samples.size());
            Object three = samples.get(2 % samples.size());
            String name = column.name();
            boolean isOneOfMany = name.startsWith("array_") || name.startsWith("map_string_");
            if (!column.type().isNullable() || isOneOfMany) {
                continue;
            }
            List<Object> in = asList(one, two, null, three);
            add(cases, AggFunctions.LAST_VALUE(), column.type(), in, in);
            add(
                    cases,
                    AggFunctions.LAST_VALUE_IGNORE_NULLS(),
                    column.type(),
                    in,
                    asList(one, two, two, three));
            add(
                    cases,
                    AggFunctions.FIRST_VALUE(),
                    column.type(),
                    in,
                    Collections.nCopies(STEPS, one));
            add(
                    cases,
                    AggFunctions.FIRST_VALUE_IGNORE_NULLS(),
                    column.type(),
                    asList(null, two, null, three),
                    asList(null, two, two, two));
        }
        DataType nested = DataTypes.ROW(DataTypes.FIELD("n", DataTypes.ARRAY(DataTypes.INT())));
        Struct first = new Struct(asList(asList(1, null)));
        Struct second = new Struct(asList((Object) null));
        add(
                cases,
                AggFunctions.FIRST_VALUE(),
                nested,
                asList(null, first, second, null),
                asList(null, first, first, first));
        add(
                cases,
                null,
                nested,
                asList(first, null, second, null),
                asList(first, first, second, second));
    }

    private static List<Object> bytes(Integer... values) {
        return Arrays.stream(values).<Object>map(v -> v == null ? null : v.byteValue()).toList();
    }

    private static List<Object> shorts(Integer... values) {
        return Arrays.stream(values).<Object>map(v -> v == null ? null : v.shortValue()).toList();
    }

    /** All cases as columns of one table, in both row formats. */
    private static void columns(Session session, List<Case> cases) throws Exception {
        for (String format : List.of("COMPACTED", "INDEXED")) {
            // CHAR(n) is n bytes for this client in INDEXED rows.
            List<Case> tried =
                    cases.stream()
                            .filter(
                                    c ->
                                            format.equals("COMPACTED")
                                                    || !c.type().equals(Columns.FREE_CHAR.type()))
                            .toList();
            Schema.Builder builder = Schema.newBuilder().column("id", DataTypes.INT());
            for (int n = 0; n < tried.size(); n++) {
                Case one = tried.get(n);
                if (one.function() == null) {
                    builder.column("c" + n, one.type());
                } else {
                    builder.column("c" + n, one.type(), one.function());
                }
            }
            Map<String, String> properties =
                    Map.of(Engines.ENGINE, "aggregation", "table.kv.format", format);
            try (Table table =
                    Keyed.create(
                            session,
                            "aggregates_" + format,
                            builder.primaryKey("id").build(),
                            properties)) {
                List<Keyed.Change> expected = new ArrayList<>();
                List<Object> before = null;
                for (int step = 0; step < STEPS; step++) {
                    List<Object> in = new ArrayList<>(List.of(1));
                    List<Object> out = new ArrayList<>(List.of(1));
                    for (Case one : tried) {
                        in.add(one.in().get(step));
                        out.add(one.out().get(step));
                    }
                    Keyed.apply(table, Keyed.puts(List.of(in)));
                    List<Object> found = Keyed.lookup(table, List.of(List.of(1))).get(0);
                    for (int n = 0; n < tried.size(); n++) {
                        Check.equal(
                                tried.get(n).function()
                                        + " of "
                                        + tried.get(n).type()
                                        + ", inputs "
                                        + tried.get(n).in().subList(0, step + 1),
                                out.get(n + 1),
                                found.get(n + 1));
                    }
                    if (before == null) {
                        expected.add(Keyed.inserted(out));
                    } else {
                        expected.addAll(Keyed.updated(before, out));
                    }
                    before = out;
                }
                Keyed.expect(session, table, "aggregates of " + format + " rows", expected);
            }
            Check.passed(
                    format + " rows: " + tried.size() + " pairs of function and type, with nulls");
        }
    }

    /** Unions, row by row, compared as sets by the library that made the inputs. */
    private static void bitmaps(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("small", DataTypes.BYTES(), AggFunctions.RBM32())
                        .column("large", DataTypes.BYTES(), AggFunctions.RBM64())
                        .primaryKey("id")
                        .build();
        try (Table table =
                Keyed.create(session, "bitmaps", schema, Map.of(Engines.ENGINE, "aggregation"))) {
            Random random = new Random(4);
            for (int id = 0; id < 4; id++) {
                RoaringBitmap small = new RoaringBitmap();
                Roaring64Bitmap large = new Roaring64Bitmap();
                for (int step = 0; step < 12; step++) {
                    RoaringBitmap moreSmall = small(random, id, step);
                    Roaring64Bitmap moreLarge = large(random, id, step);
                    boolean isNull = step % 5 == 3;
                    if (!isNull) {
                        small.or(moreSmall);
                        large.or(moreLarge);
                    }
                    Keyed.apply(
                            table,
                            Keyed.put(
                                    id,
                                    isNull ? null : bytes(moreSmall),
                                    isNull ? null : bytes(moreLarge)));
                    List<Object> found = Keyed.lookup(table, List.of(List.of(id))).get(0);
                    RoaringBitmap gotSmall = new RoaringBitmap();
                    gotSmall.deserialize(little(found.get(1)));
                    Roaring64Bitmap gotLarge = new Roaring64Bitmap();
                    gotLarge.deserialize(little(found.get(2)));
                    String what = " of key " + id + " after step " + step;
                    Check.that(
                            "rbm32" + what + ": " + gotSmall.getLongCardinality() + " of "
                                    + small.getLongCardinality() + " numbers, or others",
                            gotSmall.equals(small));
                    Check.that(
                            "rbm64" + what + ": " + gotLarge.getLongCardinality() + " of "
                                    + large.getLongCardinality() + " numbers, or others",
                            gotLarge.equals(large));
                }
            }
            Check.equal("rows", 4, Keyed.scan(table).size());
        }
        Check.passed("rbm32 and rbm64: unions of arrays, bitmaps and runs, in many containers");
    }

    private static RoaringBitmap small(Random random, int id, int step) {
        RoaringBitmap bitmap = new RoaringBitmap();
        switch ((id + step) % 4) {
            case 0 -> bitmap.add(1, 2, 3, step);
            case 1 -> bitmap.add(step * 1_000L, step * 1_000L + 70_000L);
            case 2 -> random.ints(6_000, 0, 65_536).forEach(bitmap::add);
            default -> random.ints(300).forEach(bitmap::add);
        }
        if (step % 2 == 0) {
            bitmap.runOptimize();
        }
        return bitmap;
    }

    private static Roaring64Bitmap large(Random random, int id, int step) {
        Roaring64Bitmap bitmap = new Roaring64Bitmap();
        switch ((id + step) % 5) {
            case 0 -> bitmap.add(10L, 20L, 30L + step);
            case 1 -> bitmap.addRange(1L << 40, (1L << 40) + 70_000L + step);
            case 2 -> random.ints(6_000, 0, 65_536).forEach(n -> bitmap.addLong(n + (1L << 33)));
            // Prefixes that differ in every byte, and numbers above 2^63.
            case 3 -> random.longs(400).forEach(bitmap::addLong);
            default -> {
                for (long n = 0; n < 300; n++) {
                    bitmap.addLong((n << 16) + step);
                }
            }
        }
        if (step % 2 == 0) {
            bitmap.runOptimize();
        }
        return bitmap;
    }

    private static ByteBuffer bytes(RoaringBitmap bitmap) {
        ByteBuffer buffer = ByteBuffer.allocate(bitmap.serializedSizeInBytes());
        bitmap.serialize(buffer);
        return ByteBuffer.wrap(buffer.array());
    }

    private static ByteBuffer bytes(Roaring64Bitmap bitmap) throws java.io.IOException {
        var stream = new java.io.ByteArrayOutputStream();
        bitmap.serialize((java.io.DataOutput) new java.io.DataOutputStream(stream));
        return ByteBuffer.wrap(stream.toByteArray());
    }

    private static java.io.DataInput little(Object bytes) {
        return new java.io.DataInputStream(
                new java.io.ByteArrayInputStream(((ByteBuffer) bytes).array()));
    }

    /** Other columns keep what they are; the first write of a key is stored as it was sent. */
    private static void partial(Session session) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("count", DataTypes.BIGINT(), AggFunctions.SUM())
                        .column("total", DataTypes.DOUBLE(), AggFunctions.SUM())
                        .primaryKey("id")
                        .build();
        try (Table table =
                Keyed.create(
                        session, "aggregates_partial", schema, Map.of(Engines.ENGINE, "aggregation"))) {
            Keyed.apply(table, Keyed.put(1, 10L, 100.0));
            Keyed.partial(table, new int[] {0, 1}, Keyed.put(1, 5L, 50.0));
            Keyed.partial(table, new int[] {2, 0}, Keyed.put(1, 7L, 0.5));
            Keyed.partial(table, new int[] {0, 1}, Keyed.put(2, 1L, 2.0), Keyed.put(2, 1L, 2.0));
            List<Keyed.Change> expected = new ArrayList<>();
            expected.add(Keyed.inserted(asList(1, 10L, 100.0)));
            expected.addAll(Keyed.updated(asList(1, 10L, 100.0), asList(1, 15L, 100.0)));
            expected.addAll(Keyed.updated(asList(1, 15L, 100.0), asList(1, 15L, 100.5)));
            expected.add(Keyed.inserted(asList(2, 1L, 2.0)));
            expected.addAll(Keyed.updated(asList(2, 1L, 2.0), asList(2, 2L, 2.0)));
            Keyed.expect(session, table, "partial aggregates", expected);
        }
        Check.passed("aggregation: partial writes");
    }
}
