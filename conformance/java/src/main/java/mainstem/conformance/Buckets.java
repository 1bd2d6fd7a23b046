package mainstem.conformance;

import static java.util.Arrays.asList;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.fluss.client.table.Table;
import org.apache.fluss.metadata.Schema;
import org.apache.fluss.metadata.TableDescriptor;
import org.apache.fluss.types.DataTypes;

/** Tables with several buckets: a key always lands in one bucket, round robin uses all. */
final class Buckets {
    private Buckets() {}

    private static final int BUCKETS = 4;

    static void run(Session session, String server) throws Exception {
        System.out.println("buckets");
        keyed(session);
        roundRobin(session, server);
    }

    private static TableDescriptor descriptor(String... keys) {
        return TableDescriptor.builder()
                .schema(
                        Schema.newBuilder()
                                .column("key", DataTypes.BIGINT())
                                .column("text", DataTypes.STRING())
                                .build())
                .distributedBy(BUCKETS, keys)
                .build();
    }

    private static void keyed(Session session) throws Exception {
        List<List<Object>> rows = new ArrayList<>();
        for (long n = 0; n < 1_000; n++) {
            rows.add(asList(n % 100, "row " + n));
        }
        try (Table table = session.create("keyed", descriptor("key"))) {
            Session.append(table, rows);
            Map<Object, Integer> homes = new HashMap<>();
            Set<Object> texts = new HashSet<>();
            for (Session.Read read : session.read(table, null)) {
                Object key = read.cells().get(0);
                Integer home = homes.putIfAbsent(key, read.bucket());
                Check.that(
                        "key " + key + " is in one bucket",
                        home == null || home == read.bucket());
                Check.that("a row was read once", texts.add(read.cells().get(1)));
            }
            Check.equal("keys", 100, homes.size());
            Check.equal("rows", 1_000, texts.size());
            Check.equal("buckets used", BUCKETS, new HashSet<>(homes.values()).size());
        }
        Check.passed("bucket key: one bucket for each key");
    }

    private static void roundRobin(Session session, String server) throws Exception {
        session.admin.createTable(Session.path("unkeyed"), descriptor(), false).get();
        try (Session spread =
                        new Session(
                                server,
                                Map.of("client.writer.bucket.no-key-assigner", "round_robin"));
                Table table = spread.connection.getTable(Session.path("unkeyed"))) {
            List<List<Object>> rows = new ArrayList<>();
            for (long n = 0; n < 400; n++) {
                rows.add(asList(n, null));
            }
            Session.append(table, rows);
            Set<Object> keys = new HashSet<>();
            Set<Integer> used = new HashSet<>();
            for (Session.Read read : spread.read(table, new int[] {0})) {
                keys.add(read.cells().get(0));
                used.add(read.bucket());
            }
            Check.equal("different rows", 400, keys.size());
            Check.equal("buckets used", BUCKETS, used.size());
        }
        Check.passed("no key: round robin over all buckets");
    }
}
