package mainstem.conformance;

import java.util.Map;

/**
 * {@code Main HOST:PORT}: the official Java client creates, alters, writes and reads tables on the
 * server there, and compares every value. Ends with status 1 at the first wrong one. Uses the
 * database {@code conformance_java}.
 */
public final class Main {
    private Main() {}

    /** Runs all checks. */
    public static void main(String[] arguments) {
        if (arguments.length != 1) {
            System.err.println("usage: Main HOST:PORT");
            System.exit(2);
        }
        long start = System.currentTimeMillis();
        int status = 0;
        try (Session session = new Session(arguments[0], Map.of())) {
            Cluster.run(session);
            AllTypes.run(session);
            Evolution.run(session);
            Partitions.run(session, arguments[0]);
            Offsets.run(session);
            Buckets.run(session, arguments[0]);
            Filters.run(session);
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
