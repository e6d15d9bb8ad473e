import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** As much JSON as the driver's lines need, so that the older client's jars suffice. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Node parse(String line) {
        return new Node(new Json(line).value());
    }

    private Object value() {
        skip();
        char first = text.charAt(at);
        if (first == '{') {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            for (skip(); text.charAt(at) != '}'; skip()) {
                if (text.charAt(at) == ',') at++;
                skip();
                String key = string();
                skip();
                at++; // the colon
                found.put(key, value());
            }
            at++;
            return found;
        }
        if (first == '[') {
            List<Object> found = new ArrayList<>();
            at++;
            for (skip(); text.charAt(at) != ']'; skip()) {
                if (text.charAt(at) == ',') at++;
                found.add(value());
            }
            at++;
            return found;
        }
        if (first == '"') return string();
        int begin = at;
        while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(begin, at);
        if (word.equals("null")) return null;
        if (word.equals("true") || word.equals("false")) return Boolean.valueOf(word);
        return word.contains(".") ? (Object) Double.valueOf(word) : (Object) Long.valueOf(word);
    }

    private void skip() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char letter = text.charAt(at);
            if (letter != '\\') {
                found.append(letter);
                continue;
            }
            letter = text.charAt(++at);
            if (letter == 'u') {
                found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                int known = "nrtbf".indexOf(letter);
                found.append(known < 0 ? letter : "\n\r\t\b\f".charAt(known));
            }
        }
        at++;
        return found.toString();
    }

    static String write(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
        StringBuilder out = new StringBuilder();
        if (value instanceof Map) {
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                out.append(out.length() == 0 ? "{" : ",").append(write(String.valueOf(each.getKey()))).append(":");
                out.append(write(each.getValue()));
            }
            return (out.length() == 0 ? "{" : out) + "}";
        }
        if (value instanceof Collection) {
            for (Object each : (Collection<?>) value) out.append(out.length() == 0 ? "[" : ",").append(write(each));
            return (out.length() == 0 ? "[" : out) + "]";
        }
        out.append('"');
        for (char letter : String.valueOf(value).toCharArray()) {
            if (letter == '"' || letter == '\\') out.append('\\').append(letter);
            else if (letter < 32) out.append(String.format("\\u%04x", (int) letter));
            else out.append(letter);
        }
        return out.append('"').toString();
    }

    /** One object of a call, read by key. */
    static final class Node {
        private final Map<?, ?> fields;

        private Node(Object value) {
            fields = (Map<?, ?>) value;
        }

        boolean has(String key) {
            return fields.get(key) != null;
        }

        String text(String key) {
            return (String) fields.get(key);
        }

        String asText(String key) {
            return String.valueOf(fields.get(key));
        }

        long number(String key) {
            return ((Number) fields.get(key)).longValue();
        }

        Node node(String key) {
            return new Node(fields.get(key));
        }

        @SuppressWarnings("unchecked")
        Set<String> keys() {
            return (Set<String>) fields.keySet();
        }

        @SuppressWarnings("unchecked")
        List<String> texts(String key) {
            return (List<String>) fields.get(key);
        }

        List<Long> numbers(String key) {
            List<Long> found = new ArrayList<>();
            for (Object each : (List<?>) fields.get(key)) found.add(((Number) each).longValue());
            return found;
        }

        List<Node> nodes(String key) {
            List<Node> found = new ArrayList<>();
            for (Object each : (List<?>) fields.get(key)) found.add(new Node(each));
            return found;
        }

        @SuppressWarnings("unchecked")
        List<List<String>> pairs(String key) {
            return (List<List<String>>) fields.get(key);
        }
    }
}
