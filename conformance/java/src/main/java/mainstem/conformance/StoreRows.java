package mainstem.conformance;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntPredicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import mainstem.conformance.Values.Instant;
import org.apache.fluss.bucketing.FlussBucketingFunction;
import org.apache.fluss.metadata.KvFormat;
import org.apache.fluss.row.encode.CompactedKeyEncoder;
import org.apache.fluss.row.encode.RowEncoder;
import org.apache.fluss.row.encode.ValueEncoder;
import org.apache.fluss.types.DataType;
import org.apache.fluss.types.DataTypes;
import org.apache.fluss.types.RowType;

/**
 * The writes that {@code store-files.sh} makes to a primary-key table, as CSV files, and what the
 * stores of the table's buckets must hold after them: keys, values and buckets as the client's own
 * encoders and hash have them. The table, and the order of the files, is in the script.
 */
final class StoreRows {
    private StoreRows() {}

    static final int BUCKETS = 3;

    /**
     * Enough for some 18 flushes of each bucket where write buffers are of 64 KiB; four flushes
     * make a merge.
     */
    private static final int KEYS = 3_000;

    private static final List<String> PRIMARY_KEY = List.of("item", "shop");
    private static final List<String> NAMES =
            List.of("shop", "item", "amount", "price", "weight", "seen", "note", "extra");
    private static final List<DataType> TYPES =
            List.of(
                    DataTypes.INT().copy(false),
                    DataTypes.STRING().copy(false),
                    DataTypes.BIGINT(),
                    DataTypes.DECIMAL(12, 2),
                    DataTypes.DOUBLE(),
                    DataTypes.TIMESTAMP(6),
                    DataTypes.STRING(),
                    DataTypes.INT());

    /** Columns of the first schema; the second one has {@code extra}, too. */
    private static final int FIRST_COLUMNS = 7;

    /** One file: the rows of some keys, in some columns, or their deletion. */
    private record Round(
            String file, int schema, int version, Set<String> columns, IntPredicate keys) {
        boolean isDelete() {
            return file.endsWith(".delete.csv");
        }
    }

    private static final Set<String> KEY = Set.copyOf(PRIMARY_KEY);
    private static final Set<String> FIRST = Set.copyOf(NAMES.subList(0, FIRST_COLUMNS));
    private static final Set<String> ALL = Set.copyOf(NAMES);

    /** In the order of their names; those from 5 on belong to the second schema. */
    private static final List<Round> ROUNDS =
            List.of(
                    new Round("1.csv", 1, 1, FIRST, n -> true),
                    new Round("2.csv", 1, 2, FIRST, n -> n % 4 != 0),
                    new Round("3.delete.csv", 1, 0, KEY, n -> n % 3 == 0),
                    new Round("4.csv", 1, 4, with("amount", "price"), n -> n % 5 == 0),
                    new Round("5.csv", 2, 5, ALL, n -> n % 4 != 1),
                    new Round("6.csv", 2, 6, with("note", "seen"), n -> n % 7 == 0),
                    new Round("7.csv", 2, 7, ALL, n -> n % 2 == 1),
                    new Round("8.delete.csv", 2, 0, KEY, n -> n % 11 == 0));

    private static Set<String> with(String... columns) {
        Set<String> all = new TreeSet<>(KEY);
        all.addAll(Arrays.asList(columns));
        return all;
    }

    /** A row as it is stored. */
    private record Row(int schema, List<Object> cells) {}

    /** What one store must hold, and keys that it must not hold any more. */
    record Content(Map<ByteBuffer, byte[]> entries, List<byte[]> deleted) {}

    /** Writes the files into a directory. */
    static void write(Path directory) throws Exception {
        for (Round round : ROUNDS) {
            List<String> lines = new ArrayList<>();
            List<Integer> columns =
                    IntStream.range(0, NAMES.size())
                            .filter(column -> round.columns().contains(NAMES.get(column)))
                            .boxed()
                            .toList();
            lines.add(columns.stream().map(NAMES::get).collect(Collectors.joining(",")));
            for (int n = 0; n < KEYS; n++) {
                if (round.keys().test(n)) {
                    List<Object> row = row(n, round.version());
                    lines.add(
                            columns.stream()
                                    .map(column -> text(row.get(column)))
                                    .collect(Collectors.joining(",")));
                }
            }
            Files.write(directory.resolve(round.file()), lines);
        }
    }

    /** What the store of each bucket must hold in the end. */
    static List<Content> expected() throws Exception {
        Map<Integer, Row> table = new TreeMap<>();
        Set<Integer> seen = new TreeSet<>();
        for (Round round : ROUNDS) {
            IntStream.range(0, KEYS).filter(round.keys()).forEach(n -> apply(round, n, table));
            IntStream.range(0, KEYS).filter(round.keys()).forEach(seen::add);
        }
        List<Content> buckets = new ArrayList<>();
        for (int bucket = 0; bucket < BUCKETS; bucket++) {
            buckets.add(new Content(new HashMap<>(), new ArrayList<>()));
        }
        RowType keyed = type(FIRST_COLUMNS);
        CompactedKeyEncoder keys = CompactedKeyEncoder.createKeyEncoder(keyed, PRIMARY_KEY);
        for (int n : seen) {
            List<Object> cells = row(n, 0).subList(0, FIRST_COLUMNS);
            byte[] key = keys.encodeKey(Values.row(cells, keyed.getFieldTypes()));
            Content content = buckets.get(FlussBucketingFunction.bucketForRowKey(key, BUCKETS));
            Row row = table.get(n);
            if (row == null) {
                content.deleted().add(key);
            } else {
                content.entries().put(ByteBuffer.wrap(key), value(row));
            }
        }
        return buckets;
    }

    private static void apply(Round round, int n, Map<Integer, Row> table) {
        if (round.isDelete()) {
            table.remove(n);
            return;
        }
        int columns = columns(round.schema());
        // A row that is written in part has null where it had no value.
        List<Object> cells = new ArrayList<>(Collections.nCopies(columns, null));
        Row before = table.get(n);
        if (before != null) {
            for (int column = 0; column < Math.min(before.cells().size(), columns); column++) {
                cells.set(column, before.cells().get(column));
            }
        }
        List<Object> written = row(n, round.version());
        for (int column = 0; column < columns; column++) {
            if (round.columns().contains(NAMES.get(column))) {
                cells.set(column, written.get(column));
            }
        }
        table.put(n, new Row(round.schema(), cells));
    }

    private static int columns(int schema) {
        return schema == 1 ? FIRST_COLUMNS : NAMES.size();
    }

    private static RowType type(int columns) {
        return RowType.of(
                TYPES.subList(0, columns).toArray(new DataType[0]),
                NAMES.subList(0, columns).toArray(new String[0]));
    }

    private static byte[] value(Row row) throws Exception {
        List<DataType> types = TYPES.subList(0, row.cells().size());
        try (RowEncoder encoder =
                RowEncoder.create(KvFormat.COMPACTED, types.toArray(new DataType[0]))) {
            encoder.startNewRow();
            for (int column = 0; column < types.size(); column++) {
                encoder.encodeField(
                        column, Values.internal(row.cells().get(column), types.get(column)));
            }
            return ValueEncoder.encodeValue((short) row.schema(), encoder.finishRow());
        }
    }

    /** All columns of key {@code n} as one version of its row has them. */
    private static List<Object> row(int n, int version) {
        Random random = new Random(31L * n + version);
        // Numbers of one to five bytes, texts with bytes beyond ASCII.
        int shop = n % 5 == 0 ? -n : n % 331;
        String item = (n % 4 == 0 ? "größe " : "item ") + n;
        byte[] noise = new byte[200 + random.nextInt(300)];
        random.nextBytes(noise);
        String note =
                "version %d of \"%s\", ".formatted(version, item)
                        + HexFormat.of().formatHex(noise)
                        + " and so on".repeat(random.nextInt(8));
        long micros = 1_700_000_000_000_000L + random.nextInt() * 1_000_003L;
        return Arrays.asList(
                shop,
                item,
                n % 13 == 0 ? null : random.nextLong() >> random.nextInt(64),
                n % 17 == 0 ? null : BigDecimal.valueOf(random.nextInt(), 2),
                n % 19 == 0 ? null : random.nextInt() / 8.0,
                n % 23 == 0
                        ? null
                        : new Instant(
                                Math.floorDiv(micros, 1_000L),
                                (int) Math.floorMod(micros, 1_000L) * 1_000),
                n % 29 == 0 ? null : note,
                n % 31 == 0 ? null : random.nextInt());
    }

    /** A cell of a CSV file; null is nothing. */
    private static String text(Object value) {
        if (value == null) {
            return "";
        }
        if (value instanceof String string) {
            return '"' + string.replace("\"", "\"\"") + '"';
        }
        if (value instanceof BigDecimal decimal) {
            return decimal.toPlainString();
        }
        if (value instanceof Instant instant) {
            return LocalDateTime.ofEpochSecond(
                            Math.floorDiv(instant.milliseconds(), 1_000L),
                            (int) Math.floorMod(instant.milliseconds(), 1_000L) * 1_000_000
                                    + instant.nanoseconds(),
                            ZoneOffset.UTC)
                    .toString();
        }
        return value.toString();
    }
}
