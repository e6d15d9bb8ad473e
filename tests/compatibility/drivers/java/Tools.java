import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM, by their main methods. A call is a line of JSON with
 * the tool's class, its arguments and its standard input; the answer is its exit code and what it printed. What a tool
 * asked to be run when the JVM ends (most flush or report there) is run when its main method has ended.
 */
final class Tools {
    /** Thrown where the tool would have ended the JVM. A tool may catch it and exit again: the first code counts. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static volatile Integer exitCode;
    private static final List<Runnable> hooks = new CopyOnWriteArrayList<>();

    private static void end(int code) {
        if (exitCode == null) exitCode = code;
        throw new Ended();
    }

    static void open() {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
    }

    /** What Runtime.addShutdownHook was given: most tools do not go by Exit. Needs --add-opens java.base/java.lang. */
    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> jvmHooks() throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        return (Map<Thread, Thread>) field.get(null);
    }

    static Object run(Json.Node call) throws Exception {
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
        hooks.clear();
        Set<Thread> others = Set.copyOf(jvmHooks().keySet());
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
        }
        try {
            for (Thread hook : Set.copyOf(jvmHooks().keySet())) {
                if (!others.contains(hook) && Runtime.getRuntime().removeShutdownHook(hook)) hooks.add(hook);
            }
            for (Runnable hook : hooks) hook.run();
        } catch (Ended ended) {
            // a hook that exits as well: the first code counts
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
