package mainstem.conformance;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;
import org.rocksdb.TableProperties;

/**
 * RocksDB files that the server wrote, read as clients read snapshots: by the RocksDB 6.20.3 that
 * the official client contains, with default options, read-only.
 *
 * <p>{@code StoreFiles rows DIRECTORY} writes what is to be put into the table. {@code StoreFiles
 * check DIRECTORY NAME:KIND:COMPRESSIONS…} opens the stores in the data directory {@code
 * DIRECTORY/NAME} of each server that has stopped and compares every entry. KIND is {@code merged}
 * if files of level 0 must have been merged, else {@code flushed}. COMPRESSIONS, separated by
 * commas, are those that files may have; one must have the last of them. Ends with status 1 if
 * anything differs.
 */
final class StoreFiles {
    private StoreFiles() {}

    /** Of the client's own copy: {@code org.rocksdb} is not relocated in its jar. */
    private static final String READER = "6.20.3";

    /** The directory that a store is in. */
    private static final Pattern BUCKET = Pattern.compile("b(\\d+)");

    /** Runs one of the two parts. */
    public static void main(String[] arguments) {
        int status = 0;
        try {
            if (arguments.length == 2 && arguments[0].equals("rows")) {
                StoreRows.write(Path.of(arguments[1]));
            } else if (arguments.length > 2 && arguments[0].equals("check")) {
                status = check(arguments);
            } else {
                System.err.println("usage: StoreFiles rows DIR | check DIR NAME:KIND:COMPRESSIONS…");
                status = 2;
            }
        } catch (Exception exception) {
            exception.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }

    private static int check(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        Check.equal("version of the reader", READER, RocksDB.rocksdbVersion().toString());
        List<StoreRows.Content> expected = StoreRows.expected();
        int status = 0;
        for (String setting : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] parts = setting.split(":");
            try {
                Path data = Path.of(arguments[1], parts[0]);
                checkSetting(
                        data,
                        parts[0],
                        parts[1].equals("merged"),
                        Arrays.asList(parts[2].split(",")),
                        expected);
            } catch (Exception exception) {
                // The others are of interest, too.
                System.err.println("  WRONG " + parts[0] + ": " + exception.getMessage());
                status = 1;
            }
        }
        return status;
    }

    private static void checkSetting(
            Path data,
            String name,
            boolean isMerged,
            List<String> compressions,
            List<StoreRows.Content> expected)
            throws Exception {
        List<Path> stores;
        try (Stream<Path> files = Files.walk(data)) {
            stores =
                    files.filter(file -> file.endsWith("CURRENT"))
                            .map(Path::getParent)
                            .sorted()
                            .toList();
        }
        Check.equal("stores below " + data, StoreRows.BUCKETS, stores.size());
        Found found = new Found();
        Set<Integer> buckets = new HashSet<>();
        for (Path store : stores) {
            Matcher bucket = BUCKET.matcher(store.getParent().getFileName().toString());
            Check.that(store + " belongs to a bucket", bucket.matches());
            int number = Integer.parseInt(bucket.group(1));
            Check.that("bucket " + number + " has one store", buckets.add(number));
            StoreRows.Content content = expected.get(number);
            read(store, content, new Found());
            // And of files no more than a snapshot needs to have.
            Path copy = Files.createDirectory(store.resolveSibling("snapshot"));
            copy(store, copy);
            read(copy, content, found);
        }
        Check.that(
                found.compressions + " are compressions of " + compressions + ", the last one too",
                compressions.containsAll(found.compressions)
                        && found.compressions.contains(compressions.get(compressions.size() - 1)));
        Check.equal("files were merged", isMerged, found.deepest > 0);
        Check.passed(
                "%s: %d rows in %d files of %d stores, down to level %d, %s"
                        .formatted(
                                name,
                                found.rows,
                                found.files,
                                stores.size(),
                                found.deepest,
                                String.join(" and ", found.compressions)));
    }

    /** What the stores of a server consist of. */
    private static final class Found {
        int rows;
        int files;
        int deepest;
        final Set<String> compressions = new TreeSet<>();
    }

    /** What makes a store: no options, log files or locks. */
    private static void copy(Path store, Path copy) throws Exception {
        try (Stream<Path> files = Files.list(store)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                String name = file.getFileName().toString();
                if (name.equals("CURRENT") || name.matches("MANIFEST-.*|.*\\.sst")) {
                    Files.copy(file, copy.resolve(name));
                }
            }
        }
    }

    private static void read(Path store, StoreRows.Content content, Found found) throws Exception {
        try (Options options = new Options();
                RocksDB db = RocksDB.openReadOnly(options, store.toString())) {
            Check.equal(
                    "column families of " + store,
                    List.of("default"),
                    RocksDB.listColumnFamilies(options, store.toString()).stream()
                            .map(String::new)
                            .toList());
            iterate(db, store, content);
            // Through indexes and filters.
            for (var entry : content.entries().entrySet()) {
                byte[] key = entry.getKey().array();
                same(store, key, entry.getValue(), db.get(key));
            }
            for (byte[] key : content.deleted()) {
                same(store, key, null, db.get(key));
            }
            db.verifyChecksum();
            found.rows += content.entries().size();
            for (LiveFileMetaData file : db.getLiveFilesMetaData()) {
                found.files++;
                found.deepest = Math.max(found.deepest, file.level());
            }
            for (TableProperties properties : db.getPropertiesOfAllTables().values()) {
                found.compressions.add(properties.getCompressionName());
            }
        }
    }

    private static void iterate(RocksDB db, Path store, StoreRows.Content content)
            throws Exception {
        int rows = 0;
        byte[] last = null;
        try (RocksIterator iterator = db.newIterator()) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                byte[] key = iterator.key();
                Check.that(
                        "keys of " + store + " ascend at " + HexFormat.of().formatHex(key),
                        last == null || Arrays.compareUnsigned(last, key) < 0);
                same(store, key, content.entries().get(ByteBuffer.wrap(key)), iterator.value());
                last = key;
                rows++;
            }
            iterator.status();
        }
        Check.equal("rows of " + store, content.entries().size(), rows);
    }

    private static void same(Path store, byte[] key, byte[] expected, byte[] actual) {
        Check.equal(
                "value of key " + HexFormat.of().formatHex(key) + " in " + store,
                expected == null ? "none" : HexFormat.of().formatHex(expected),
                actual == null ? "none" : HexFormat.of().formatHex(actual));
    }
}
