import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * Runs calls that are lines of JSON on standard input: `java Driver clients BOOTSTRAP` those of Clients.java, `java Driver
 * tools` those of Tools.java. An answer is a line with `result`, `unsupported` or `error`.
 */
public final class Driver {
    private static final int ERROR_CHARACTERS = 600;

    private interface Calls {
        Object call(Json.Node in) throws Exception;
    }

    /** The library of this version has no such thing. */
    static final class Unsupported extends Exception {
        Unsupported(String what) {
            super(what);
        }
    }

    private Driver() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // a thread that a tool left behind must not write among the answers
        if (arguments[0].equals("tools")) {
            Tools.open();
            answerAll(Tools::run, answers);
        } else {
            Clients.open(arguments[1]);
            answerAll(Clients::call, answers);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answerAll(Calls calls, PrintStream answers) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("result", calls.call(Json.parse(line)));
            } catch (Unsupported error) {
                answer.put("unsupported", error.getMessage());
            } catch (NoSuchMethodError error) {
                // 'RESULT CLASS.METHOD(PARAMETERS)'
                String method = error.getMessage().replaceFirst("\\(.*", "").replaceFirst(".* ", "");
                answer.put("unsupported", "no method " + method.replaceFirst(".*\\.(?=\\w+\\.)", ""));
            } catch (NoClassDefFoundError error) {
                boolean isMissing = error.getCause() instanceof ClassNotFoundException;
                answer.put(isMissing ? "unsupported" : "error", isMissing ? "no class " + error.getMessage() : textOf(error));
            } catch (Exception error) {
                answer.put("error", textOf(error));
            }
            answers.write((Json.write(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
    }

    private static String textOf(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof ExecutionException || cause instanceof InvocationTargetException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        StringBuilder text = new StringBuilder();
        for (Throwable each = cause; each != null && text.length() < ERROR_CHARACTERS; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : "; ").append(each);
        }
        return text.toString();
    }
}
