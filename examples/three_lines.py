"""From smartwatch recordings to features, and a classifier from few labels.

Features are learned without labels from seven people. A logistic regression then gets a few
labelled windows of other people, and is tested on people that neither has seen.

    python examples/three_lines.py

Needs ``pip install 'tensorcontrast[data]'`` for the recordings; nothing is downloaded.
"""

from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tensorcontrast import PLC, ContrastiveFeatures
from tensorcontrast.datasets import load_watch
from tensorcontrast.evaluate import label_budget, subject_split


def main() -> None:
    rec = load_watch()
    split = subject_split(rec, seed=0)  # no person is in two parts
    print(rec)
    print(split)

    # The three lines. Sampling rate and channel names come with the recordings.
    features = ContrastiveFeatures(decompose=PLC(n_clusters=rec.n_classes), random_state=0)
    features.fit(rec[split.unlabelled])
    W_train, W_test = features.transform(rec[split.train]), features.transform(rec[split.test])
    print(f"features of the labelled people: {W_train.shape}, of the others: {W_test.shape}")

    labelled = label_budget(rec.y[split.train], 60, seed=0)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    probe.fit(W_train[labelled], rec.y[split.train][labelled])
    predicted = probe.predict(W_test)
    print(f"\ntrained on {len(labelled)} labelled windows; people never seen before:")
    names = list(rec.classes)
    print(
        classification_report(
            rec.y[split.test],
            predicted,
            labels=range(len(names)),
            target_names=names,
            zero_division=0,
        )
    )


if __name__ == "__main__":
    main()
