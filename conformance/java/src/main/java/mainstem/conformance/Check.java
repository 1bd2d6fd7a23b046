package mainstem.conformance;

import java.util.Objects;
import org.apache.fluss.rpc.protocol.Errors;

/** Comparisons that end the program at the first wrong value and say which. */
final class Check {
    private Check() {}

    /** Something differs from what it must be. */
    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Wrong(String message) {
            super(message);
        }

        Wrong(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** A call that may fail with anything. */
    interface Call {
        void run() throws Exception;
    }

    static void equal(String what, Object expected, Object actual) {
        if (!Objects.deepEquals(expected, actual)) {
            throw new Wrong(
                    what + "\n  expected: " + brief(expected) + "\n  actual:   " + brief(actual));
        }
    }

    static void that(String what, boolean condition) {
        if (!condition) {
            throw new Wrong(what);
        }
    }

    /** The call must fail with this Fluss error. */
    static void failsWith(String what, Errors error, Call call) {
        try {
            call.run();
        } catch (Exception exception) {
            // The client wraps what the server said, once or twice.
            for (Throwable cause = exception; cause != null; cause = cause.getCause()) {
                if (Errors.forException(cause) == error) {
                    return;
                }
            }
            throw new Wrong(what + ": expected " + error + ", got " + exception, exception);
        }
        throw new Wrong(what + ": succeeded, expected " + error);
    }

    /** A step that passed. */
    static void passed(String what) {
        System.out.println("  ok    " + what);
    }

    /** A step that this client cannot do. */
    static void cannot(String what) {
        System.out.println("  cannot " + what);
    }

    private static String brief(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 600
                ? text
                : text.substring(0, 600) + "… (" + text.length() + " characters)";
    }
}
