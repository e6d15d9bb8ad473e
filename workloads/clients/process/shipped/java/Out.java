import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;

/** What the client says, one line of JSON an event. Jackson writes and reads bytes as base64. */
final class Out {
    static final ObjectMapper JSON = new ObjectMapper();

    private Out() {
    }

    /** System.nanoTime() is CLOCK_MONOTONIC on Linux. */
    static long nowUs() {
        return System.nanoTime() / 1_000;
    }

    /** Name, value, name, value ... */
    static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            found.put((String) pairs[i], pairs[i + 1]);
        }
        return found;
    }

    static void say(String event, Map<String, Object> more) {
        Map<String, Object> line = fields("event", event, "at_us", nowUs());
        line.putAll(more);
        try {
            byte[] text = (JSON.writeValueAsString(line) + "\n").getBytes("UTF-8");
            synchronized (System.out) {
                System.out.write(text, 0, text.length);
                System.out.flush();
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The code of a broker; -1 if the library failed by itself. */
    static int codeOf(Throwable error) {
        Errors known = Errors.forException(error);
        boolean isLocal = known == Errors.NETWORK_EXCEPTION
            || error instanceof TimeoutException && !known.message().equals(error.getMessage());
        return isLocal ? -1 : known.code();
    }

    /** What the library wants the application to do after an error in a transaction. */
    static String nextOf(Throwable error) {
        if (error instanceof TimeoutException) {
            return "retry";
        }
        boolean isFatal = error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException
            || error instanceof AuthorizationException || error instanceof UnsupportedVersionException;
        return isFatal ? "close" : error instanceof KafkaException ? "abort" : null;
    }

    static String reasonOf(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return cause == error ? error.toString() : error + ": " + cause;
    }
}
