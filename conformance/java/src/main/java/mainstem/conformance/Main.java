package mainstem.conformance;

import java.util.Map;

/**
 * {@code Main HOST:PORT [primary-key]}: the official Java client creates, alters, writes and reads
 * tables on the server there, and compares every value. Ends with status 1 at the first wrong one.
 * Uses the database {@code conformance_java}. With {@code primary-key} only the tables with a
 * primary key are tried.
 */
public final class Main {
    private Main() {}

    /** Runs all checks. */
    public static void main(String[] arguments) {
        boolean onlyKeyed = arguments.length == 2 && arguments[1].equals("primary-key");
        if (arguments.length != 1 && !onlyKeyed) {
            System.err.println("usage: Main HOST:PORT [primary-key]");
            System.exit(2);
        }
        long start = System.currentTimeMillis();
        int status = 0;
        try (Session session = new Session(arguments[0], Map.of())) {
            Cluster.run(session);
            if (!onlyKeyed) {
                AllTypes.run(session);
                Evolution.run(session);
                Partitions.run(session, arguments[0]);
                Offsets.run(session);
                Buckets.run(session, arguments[0]);
                Filters.run(session);
            }
            System.out.println("primary-key tables");
            KeyedValues.run(session);
            Keys.run(session);
            Changes.run(session);
            Engines.run(session);
            Aggregates.run(session);
            Lookups.run(session);
            Additions.run(session, arguments[0]);
            session.admin.dropDatabase(Session.DATABASE, false, true).get();
            System.out.printf(
                    "fluss-client 1.0.0 (Java): all passed in %.1f s%n",
                    (System.currentTimeMillis() - start) / 1000.0);
        } catch (Exception exception) {
            System.err.println("fluss-client 1.0.0 (Java): WRONG: " + exception.getMessage());
            exception.printStackTrace();
            status = 1;
        }
        // The client's threads need no farewell.
        System.exit(status);
    }
}
