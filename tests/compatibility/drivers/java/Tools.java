import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM, by their main methods. A call is a line of JSON with
 * the tool's class, its arguments and its standard input; the answer is its exit code and what it printed.
 */
public final class Tools {
    /** Thrown where the tool would have ended the JVM. A tool may catch it and exit again: the first code counts. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static volatile Integer exitCode;

    private static void end(int code) {
        if (exitCode == null) exitCode = code;
        throw new Ended();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("result", run(Json.parse(line)));
            answers.write((Json.write(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object run(Json.Node call) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        PrintStream printed = new PrintStream(out, true, StandardCharsets.UTF_8);
        PrintStream before = System.out;
        PrintStream errors = System.err;
        System.setOut(printed);
        System.setErr(printed);
        String input = call.has("stdin") ? call.text("stdin") : "";
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        int code = 0;
        exitCode = null;
        try {
            List<String> given = call.texts("arguments");
            Class.forName(call.text("tool")).getMethod("main", String[].class)
                .invoke(null, (Object) given.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            if (!(cause instanceof Ended)) {
                code = 1;
                cause.printStackTrace(printed);
            }
        } finally {
            System.setOut(before);
            System.setErr(errors);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("code", exitCode == null ? code : exitCode);
        result.put("out", out.toString(StandardCharsets.UTF_8));
        return result;
    }
}
